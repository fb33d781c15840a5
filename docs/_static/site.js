// What scrolls sideways can be reached with the keyboard.
addEventListener("load", () => {
  const mark = () => {
    for (const one of document.querySelectorAll("article pre, .table-wrapper, .formula, .cell_output")) {
      if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
      else one.removeAttribute("tabindex");
    }
  };
  mark();
  addEventListener("resize", mark);
});

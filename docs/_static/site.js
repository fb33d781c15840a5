// For readers who use the keyboard or a screen reader; the theme leaves these out.
const named = { ".sidebar-drawer": "Pages", ".toc-drawer": "On this page" };
const scrolling = "article pre, .table-wrapper, .formula, .cell_output, .tightrope";

function reach() {
  for (const one of document.querySelectorAll(scrolling)) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}

addEventListener("load", () => {
  for (const [place, name] of Object.entries(named)) document.querySelector(place)?.setAttribute("aria-label", name);
  for (const one of document.querySelectorAll("p.caption[role=heading]")) one.ariaLevel = "2";
  for (const one of document.querySelectorAll(".sig dl, .sig dd")) one.role = "none"; // lines of a signature
  reach();
});
addEventListener("resize", reach);

// For readers who use the keyboard or a screen reader; the theme and notebooks leave these out.
const named = { ".sidebar-drawer": "Pages", ".toc-drawer": "On this page" };
const scrolling = "article pre, .table-wrapper, .formula, .cell_output, .tightrope";

function made(tag, name, ...content) {
  const one = document.createElement(tag);
  one.className = name;
  one.append(...content);
  return one;
}

function reach() {
  for (const one of document.querySelectorAll(scrolling)) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}

addEventListener("load", () => {
  for (const [place, name] of Object.entries(named)) document.querySelector(place)?.setAttribute("aria-label", name);
  document.querySelector("#search-results")?.before(made("h1", "", "Search"));
  for (const one of document.querySelectorAll("p.caption[role=heading]")) one.ariaLevel = "2";
  for (const one of document.querySelectorAll("article th")) {
    const formula = one.querySelector("math"), words = one.textContent.trim();
    if (words && words !== formula?.textContent.trim()) continue;
    formula?.setAttribute("aria-hidden", "true");
    one.append(made("span", "visually-hidden", words || "Row"));
  }
  for (const list of document.querySelectorAll(".sig dl")) { // lines of a signature: no terms, no definitions
    list.replaceWith(made("div", "lines", ...[...list.children].map((line) => made("div", "", ...line.childNodes))));
  }
  reach();
});
addEventListener("resize", reach);

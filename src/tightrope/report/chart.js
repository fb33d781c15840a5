"use strict";
// Regret against the budget on the chosen problem, of the policies that are ticked.
const chart = JSON.parse(document.getElementById("chart-data").textContent);
const place = document.getElementById("chart"), problem = document.getElementById("chart-problem");
const boxes = [...document.querySelectorAll("#chart-policies input")];
const HEIGHT = 380, LEFT = 70, RIGHT = 16, TOP = 12, BOTTOM = 46, STRAIGHT = 0.01;

const element = (name, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const bent = (share) => Math.sign(share) * Math.log10(1 + Math.abs(share) / STRAIGHT);
const percent = (share) => `${(100 * share).toLocaleString("en", { maximumFractionDigits: 2 })} %`;

const draw = () => {
  const WIDTH = Math.max(300, Math.min(760, place.clientWidth - 24));
  const { points, learning } = chart.problems[problem.value];
  const shown = boxes.map((box, at) => (box.checked ? at : -1)).filter((at) => at >= 0);
  const visible = points.filter(([policy]) => shown.includes(policy));
  const budgets = [...new Set(points.map(([, budget]) => budget))].sort((a, b) => a - b);
  const alone = budgets.length < 2;
  const across = (policy, budget) => {
    const part = alone ? (shown.indexOf(policy) + 0.5) / Math.max(shown.length, 1)
      : Math.log(budget / budgets[0]) / Math.log(budgets.at(-1) / budgets[0]);
    return LEFT + 12 + part * (WIDTH - LEFT - RIGHT - 24);
  };
  const heights = [-0.02, 0.03, ...visible.map((point) => point[2])].map(bent);
  const margin = 0.06 * (Math.max(...heights) - Math.min(...heights));
  const low = Math.min(...heights) - margin, high = Math.max(...heights) + margin;
  const up = (share) => TOP + ((high - bent(share)) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `regret on ${problem.value}` });
  for (const tick of [-10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10].filter((one) => bent(one) >= low && bent(one) <= high)) {
    svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: up(tick), y2: up(tick), class: tick ? "grid" : "axis" }));
    svg.append(element("text", { x: LEFT - 8, y: up(tick) + 4, "text-anchor": "end" }, percent(tick)));
  }
  for (const budget of alone ? [] : budgets) {
    svg.append(element("text", { x: across(0, budget), y: HEIGHT - 24, "text-anchor": "middle" }, budget.toLocaleString("en")));
  }
  const below = alone ? `policies as in the list, budget ${(budgets[0] ?? 0).toLocaleString("en")}` : "budget, in largest costs of one pull";
  svg.append(element("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, below));
  svg.append(element("text", { x: 14, y: HEIGHT / 2, transform: `rotate(-90 14 ${HEIGHT / 2})`, "text-anchor": "middle" }, "regret / OPT(B)"));
  const path = (some) => some.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  if (!alone) {
    const seen = learning.filter(([, share]) => bent(share) <= high);
    const line = seen.map(([budget, share]) => [across(0, budget), up(share)]);
    svg.append(element("path", { d: path(line), class: "learning" }));
  }
  for (const at of shown) {
    const { title, colour, dashes } = chart.policies[at];
    const mine = visible.filter(([policy]) => policy === at).sort((a, b) => a[1] - b[1]);
    const line = mine.map(([, budget, share]) => [across(at, budget), up(share)]);
    svg.append(element("path", { d: path(line), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dashes }));
    mine.forEach(([, budget, share, kept], i) => {
      const dot = element("circle", { cx: line[i][0], cy: line[i][1], r: 5, stroke: colour, "stroke-width": 2, fill: kept ? colour : "var(--card)" });
      dot.append(element("title", {}, `${title}, budget ${budget.toLocaleString("en")}: ${percent(share)}, ${kept ? "keeps the limit" : "is not shown to keep the limit"}`));
      svg.append(dot);
    });
  }
  place.replaceChildren(svg);
};
for (const one of [problem, ...boxes]) one.addEventListener("change", draw);
window.addEventListener("resize", draw);
document.getElementById("problem").hidden = false;
draw();

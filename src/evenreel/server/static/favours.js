// What a ranking favours: the shown clips beside all that could have been shown.

import { element } from "./dom.js";
import { capital, clock, count, percent } from "./format.js";

const WIDE = matchMedia("(min-width: 94rem)");

/** Reports on many queries, as {href, text}; one query is a hint only. Shown once there are some. */
const AUDITS = [];

let opened = null; // what the reader chose; until then it is open where there is room beside the results

/**
 * The panel of what a result favours; none where no difference is beyond chance.
 *
 * @param {object} favours a `Favours` record
 */
export function favoursPanel(favours) {
  if (!favours.sentences.length) return null;
  const found = element(
    "ul",
    { class: "findings" },
    favours.sentences.map((sentence) => element("li", {}, sentence)),
  );
  const title = element("h2", { id: "favours-title" }, "What this ranking favours");
  return element(
    "section",
    { class: "favours", "aria-labelledby": "favours-title" },
    title,
    found,
    comparison(favours),
  );
}

function comparison(favours) {
  const measures = [...new Set(favours.groups.map((group) => group.measure))];
  return element(
    "details",
    { open: opened ?? WIDE.matches },
    element(
      "summary",
      { onclick: ({ currentTarget }) => (opened = !currentTarget.parentElement.open) },
      "Compare with the library",
    ),
    legend(favours),
    measures.map((measure) =>
      groupBars(
        measure,
        favours.groups.filter((group) => group.measure === measure),
      ),
    ),
    favours.lengths ? lengthBars(favours.lengths) : null,
    element("p", { class: "note" }, favours.note),
    AUDITS.length
      ? element(
          "ul",
          {},
          AUDITS.map(({ href, text }) => element("li", {}, element("a", { href }, text))),
        )
      : null,
  );
}

function legend({ shown, all }) {
  const key = (series, text) => element("li", { class: series }, text);
  return element(
    "ul",
    { class: "legend" },
    key("shown", count(shown, "result")),
    key("all", `${count(all, "clip")} in all`),
  );
}

function groupBars(measure, groups) {
  return element(
    "section",
    {},
    element("h3", {}, capital(measure)),
    element("dl", { class: "bars" }, groups.map(groupBar)),
  );
}

function groupBar(group) {
  return element(
    "div",
    {},
    element("dt", {}, group.label),
    bar("shown", group.share_shown, "results", `${group.shown} of ${group.shown_of}`),
    bar("all", group.share_all, "library", `${group.all} of ${group.all_of}`),
  );
}

function bar(series, share, whose, amount) {
  const length = element("span", {});
  length.style.inlineSize = `${share * 100}%`;
  return element(
    "dd",
    { class: series, title: `${amount} (${whose})` },
    element("span", { class: "bar", "aria-hidden": "true" }, length),
    element("span", {}, percent(share), element("span", { class: "unseen" }, ` of the ${whose}, ${amount}`)),
  );
}

function lengthBars({ bins, median_shown_s: shown, median_all_s: all }) {
  const total = (series) => bins.reduce((sum, bin) => sum + bin[series], 0) || 1;
  const totals = { shown: total("shown"), all: total("all") };
  const highest = Math.max(...bins.flatMap((bin) => [bin.shown / totals.shown, bin.all / totals.all]), 1e-9);
  const medians = `Median ${seconds(shown)} in the results, ${seconds(all)} in the library.`;
  return element(
    "section",
    {},
    element("h3", {}, "Length"),
    element(
      "ol",
      { class: "histogram" },
      bins.map((bin) => lengthBin(bin, totals, highest)),
    ),
    element("p", {}, medians),
  );
}

function lengthBin(bin, totals, highest) {
  const column = (series) => {
    const part = element("span", { class: series });
    part.style.blockSize = `${(bin[series] / totals[series] / highest) * 100}%`;
    return part;
  };
  const shares = `${percent(bin.shown / totals.shown)} of the results, ${percent(bin.all / totals.all)} of the library`;
  return element(
    "li",
    { title: shares },
    element("span", { class: "columns", "aria-hidden": "true" }, column("shown"), column("all")),
    element("span", {}, binName(bin), element("span", { class: "unseen" }, `: ${shares}`)),
  );
}

function binName({ start_s: start, end_s: end }) {
  if (end === null) return `${short(start)}+`;
  return start === 0 ? `< ${short(end)}` : `${short(start)}–${short(end)}`;
}

const short = (value) => (value >= 60 ? clock(value) : `${+value.toFixed(1)}`);
const seconds = (value) => (value >= 60 ? clock(value) : `${+value.toFixed(1)} s`);

// Elements from plain values. Text always becomes a text node, so nothing that comes from a file is read as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * An element with attributes, listeners (`onclick: f`) and children; attributes that are null or false are left out.
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  fill(node, ...children);
  return node;
}

/** Put children in the place of those that are there. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(isShown).map(asNode));
}

const isShown = (child) => child !== null && child !== undefined && child !== false;
const asNode = (child) => (child instanceof Node ? child : String(child));

/** One of the symbols that index.html defines; it says nothing to a screen reader. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * Text with some stretches marked.
 *
 * @param {[number, number][]} marks disjoint, rising, in Unicode code points.
 */
export function marked(text, marks) {
  const points = Array.from(text);
  const pieces = [];
  let end = 0;
  for (const [from, to] of marks) {
    pieces.push(points.slice(end, from).join(""), element("mark", {}, points.slice(from, to).join("")));
    end = to;
  }
  return [...pieces, points.slice(end).join("")];
}

/** @returns {boolean} whether there is anything to read in what was read on screen or heard. */
export const hasText = ({ text }) => /[\p{L}\p{N}]/u.test(text);

/** A name of a file, which may break after a mark between its words, where text would go on or break anywhere. */
export function breakable(name) {
  return name.split(BETWEEN_WORDS).flatMap((part, number) => (number ? [element("wbr"), part] : [part]));
}

const BETWEEN_WORDS = /(?<=[_.+=,;~()[\]/\\-])(?=[^_.+=,;~()[\]/\\-])/u;

const loaded = new Set();

/**
 * A still in a box whose shape is fixed, so that nothing moves when it arrives; words in its place when it does not.
 *
 * @param {Child[]} over what lies over the picture
 * @param {Child | Child[]} instead what stands in the place of a picture that does not come
 */
export function still(address, over = [], instead = "No picture") {
  const box = element("div", { class: "still" }, over);
  const missing = () => {
    box.classList.add("without");
    box.prepend(element("span", { class: "placeholder", dir: "auto" }, instead));
  };
  if (!address) {
    missing();
    return box;
  }
  const decoding = loaded.has(address) ? "sync" : "async"; // what was shown a key ago does not flash
  const picture = element("img", { src: address, alt: "", loading: "lazy", decoding, draggable: "false" });
  picture.addEventListener("load", () => {
    loaded.add(address);
    box.classList.toggle("portrait", picture.naturalHeight > picture.naturalWidth);
  });
  picture.addEventListener("error", () => {
    picture.remove();
    missing();
  });
  box.prepend(picture);
  return box;
}

/** The element of index.html with this id. */
export const byId = (id) => document.getElementById(id);

let saying = 0;

/** Say something to a screen reader without showing it, after a pause in which nothing else is said. */
export function announce(sentence, pauseMs = 0) {
  clearTimeout(saying);
  const say = () => (byId("announcements").textContent = sentence);
  if (pauseMs) saying = setTimeout(say, pauseMs);
  else say();
}

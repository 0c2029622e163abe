// Pictures to search by: dropped anywhere, pasted, or chosen. This browser keeps the latest ones, made small, by a name
// that an address holds; the server keeps none.

import { byId } from "./dom.js";
import { PICTURES, remember, remembered } from "./remembered.js";

const MOST = 6;
const LONGEST_SIDE_PX = 512; // models look at fewer

/** @type {Map<string, Blob>} */
const pictures = new Map();

/** @returns {Blob | undefined} the picture of a name; none where this browser has it no longer. */
export function pictureOf(name) {
  const [, kept] = pictures.has(name) ? [] : (keptPictures().find(([known]) => known === name) ?? []);
  if (kept) pictures.set(name, fromDataUrl(kept));
  return pictures.get(name);
}

/** @returns {[string, string][]} names and pictures as data URLs */
function keptPictures() {
  try {
    const kept = JSON.parse(remembered(PICTURES) ?? "[]");
    return kept.filter(([name, url]) => typeof name === "string" && String(url).startsWith(JPEG));
  } catch {
    return []; // written by somebody else
  }
}

const JPEG = "data:image/jpeg;base64,";

function fromDataUrl(url) {
  const bytes = Uint8Array.from(atob(url.slice(JPEG.length)), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: "image/jpeg" });
}

/** Keep a picture, and name it; one that this browser cannot show is kept as it is until the page is left. */
async function keep(picture) {
  const random = [...crypto.getRandomValues(new Uint8Array(8))];
  const name = random.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  pictures.set(name, picture);
  try {
    const url = await small(picture);
    pictures.set(name, fromDataUrl(url));
    remember(PICTURES, JSON.stringify([[name, url], ...keptPictures()].slice(0, MOST)));
  } catch {
    // the server says whether it can be searched for
  }
  return name;
}

async function small(picture) {
  const shown = await createImageBitmap(picture);
  const scale = Math.min(1, LONGEST_SIDE_PX / Math.max(shown.width, shown.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(shown.width * scale));
  canvas.height = Math.max(1, Math.round(shown.height * scale));
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(shown, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}

/**
 * Listen for pictures.
 *
 * @param {(name: string) => void} onPicture told the name of the new picture
 * @param {(sentence: string) => void} onRefused told why what was dropped is none
 */
export function listenForPictures(onPicture, onRefused) {
  const take = async (files) => {
    const picture = [...files].find((file) => file.type.startsWith("image/"));
    if (picture) onPicture(await keep(picture));
    else if (files.length) onRefused(`${files[0].name} is not a picture. Use a JPEG or PNG, for example.`);
  };
  listenForDrops(take);
  document.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  });
  byId("choose-picture").addEventListener("click", () => byId("picture-file").click());
  byId("picture-file").addEventListener("change", ({ target }) => {
    take(target.files);
    target.value = "";
  });
}

function listenForDrops(take) {
  const overlay = byId("drop");
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files") && !byId("player").open;
  const show = (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    overlay.hidden = false;
  };
  document.addEventListener("dragenter", show);
  document.addEventListener("dragover", show);
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) overlay.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    overlay.hidden = true;
    if (!holdsFiles(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}

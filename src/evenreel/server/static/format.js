// Figures as people read them.

/** A time or length: 0:07, 12:30, 1:02:30. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds + 1e-6));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The length of a clip: 0.4 s, 0:07, 12:30. */
export function length(seconds) {
  return seconds < 1 ? `${number(seconds, 1)} s` : clock(seconds);
}

/** A length in the unit that suits it: 42 seconds, 5.0 minutes, 3.2 hours. */
export function span(hours) {
  if (hours >= 2) return `${number(hours, 1)} hours`;
  if (hours * 60 >= 2) return `${number(hours * 60, 1)} minutes`;
  return `${number(hours * 3600, 0)} seconds`;
}

/** A number with its thousands grouped and a fixed number of decimals. */
export function number(value, decimals = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/**
 * A share in whole percent, never rounded up to 100 nor down to 0.
 *
 * @param {number} share 0 to 1
 */
export function percent(share) {
  if (share <= 0 || share >= 1) return `${share <= 0 ? 0 : 100} %`;
  return `${Math.min(99, Math.max(1, Math.round(share * 100)))} %`;
}

/** A size in bytes: 740 kB, 12.3 MB. */
export function size(bytes) {
  const units = ["kB", "MB", "GB", "TB"];
  const unit = Math.min(units.length, Math.max(1, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const amount = bytes / 1000 ** unit;
  return `${number(amount, amount < 10 ? 1 : 0)} ${units[unit - 1]}`;
}

/** 1 clip, 2 clips. */
export function count(amount, one, many = `${one}s`) {
  return `${number(amount)} ${amount === 1 ? one : many}`;
}

/** A value of metadata as text. */
export function shown(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === "" ? "(empty)" : String(value);
}

/** The same with its first letter large. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A day as a person writes it: 31 May 2024. */
export function dayTold(day) {
  if (day === null) return "no date";
  const parts = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" };
  return new Date(`${day}T00:00:00Z`).toLocaleDateString("en-GB", parts);
}

/** A month, year or folder as a person reads it. */
export function withinTold(kind, value) {
  if (kind === "folders") return value || "(top folder)";
  if (value.length === 4) return value;
  const month = new Date(`${value}-01T00:00:00Z`);
  return month.toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}

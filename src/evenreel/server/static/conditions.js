// Filters that were clicked together, and the text of the filter language that they stand for.

/**
 * A value that a column must have (several of one column: any of them), a range that it must be in, or a month, year or
 * folder that it must lie within.
 *
 * @typedef {{column: string, value: string | number | boolean}} OneOf
 * @typedef {{column: string, low: number | null, high: number | null}} Range
 * @typedef {{column: string, within: string, kind: "days" | "folders"}} Within
 * @typedef {OneOf | Range | Within} Condition
 */

/** The filter that holds all conditions and what was typed; empty where there are none. */
export function compose(conditions, typed) {
  const columns = [...new Set(conditions.map((condition) => condition.column))];
  const parts = columns.map((column) =>
    ofColumn(
      column,
      conditions.filter((one) => one.column === column),
    ),
  );
  if (typed.trim()) parts.push(typed.trim());
  return parts.length > 1 ? parts.map((part) => `(${part})`).join(" and ") : parts.join("");
}

function ofColumn(column, conditions) {
  const values = conditions.filter(isValue).map((condition) => condition.value);
  // The language compares one kind at a time: 12 and '12' of one column are two tests.
  const kinds = [
    values.filter((value) => typeof value === "string"),
    values.filter((value) => typeof value !== "string"),
  ];
  const tests = kinds.filter((kind) => kind.length).map((kind) => `${column} in (${kind.map(literal).join(", ")})`);
  const within = conditions.filter(isWithin).map(withinTest);
  return [...tests, ...within, ...conditions.filter(isRange).map(rangeTest)].join(" or ");
}

/** Folders by their order as text: `like` would take _ and % in a name for any letters, `=` other spellings of it. */
function withinTest({ column, within, kind }) {
  if (kind === "days") return `${column} like ${literal(`${within}%`)}`;
  if (!within) return `${column} = ''`;
  const [from, to] = [0, 1].map((side) => SEPARATORS.map((ends) => literal(within + ends[side])));
  const below = from.map((start, number) => `${column} >= ${start} and ${column} < ${to[number]}`);
  return `${column} between ${literal(within)} and ${literal(within)} or ${below.join(" or ")}`;
}

/** What parts folders, on Windows the other one, each with the letter that comes next. */
const SEPARATORS = [
  ["/", "0"],
  ["\\", "]"],
];

function rangeTest({ column, low, high }) {
  const ends = [low !== null && `${column} >= ${low}`, high !== null && `${column} <= ${high}`];
  return ends.filter(Boolean).join(" and ");
}

const literal = (value) => (typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value));

/** @returns {boolean} whether this is a value. */
export const isValue = (condition) => "value" in condition;

/** @returns {boolean} whether this is a month, year or folder. */
export const isWithin = (condition) => "within" in condition;

const isRange = (condition) => "low" in condition;

/** @returns {boolean} whether two conditions are the same. */
export const same = (one, other) => JSON.stringify(toJson(one)) === JSON.stringify(toJson(other));

/**
 * The short form that an address holds: [column, value], [column, low, high] or [column, "days" or "folders", within].
 */
export function toJson(condition) {
  const { column } = condition;
  if (isWithin(condition)) return [column, condition.kind, condition.within];
  return isValue(condition) ? [column, condition.value] : [column, condition.low, condition.high];
}

/** The condition of a short form, or null where it is none: addresses are written by anybody. */
export function fromJson(short) {
  if (!Array.isArray(short) || typeof short[0] !== "string" || !short[0]) return null;
  const [column, first, second] = short;
  if (short.length === 2)
    return ["string", "number", "boolean"].includes(typeof first) ? { column, value: first } : null;
  if (short.length === 3 && ["days", "folders"].includes(first) && typeof second === "string")
    return { column, kind: first, within: second };
  const isEnd = (end) => end === null || Number.isFinite(end);
  const isRange = short.length === 3 && isEnd(first) && isEnd(second) && (first !== null || second !== null);
  return isRange ? { column, low: first, high: second } : null;
}

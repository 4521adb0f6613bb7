/** How deep objects and arrays may nest; the outermost object is at depth 1. */
const maxDepth = 64;

/**
 * Writes a JSON value in the canonical form of RFC 8785. Numbers and strings take
 * ECMAScript's form, as RFC 8785 requires. Names sort by UTF-16 code units, as
 * Array.sort does. Throws a TypeError for a value that I-JSON can't hold.
 */
export function canonicalize(value: unknown, depth = 1): string {
  if (typeof value === "string") {
    if (/\p{Surrogate}/u.test(value)) throw new TypeError("a lone surrogate is not I-JSON");
    return JSON.stringify(value);
  }
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError("a number outside the range of a double");
    return JSON.stringify(value);
  }
  if (typeof value !== "object") throw new TypeError(`${typeof value} is not JSON`);
  if (depth > maxDepth) throw new TypeError(`nested deeper than ${maxDepth}`);
  if (Array.isArray(value)) return `[${value.map((v) => canonicalize(v, depth + 1)).join(",")}]`;
  const members = value as Record<string, unknown>;
  const names = Object.keys(members).sort();
  return `{${names.map((name) => `${canonicalize(name)}:${canonicalize(members[name], depth + 1)}`).join(",")}}`;
}

/** Parses JSON. Throws if an object has a name twice: JSON.parse takes the last one, and other readers may show the first. */
export function parseUnique(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Outside of its strings, JSON has one colon for each member.
  const colons = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, "").split(":").length - 1;
  if (colons !== countMembers(value)) throw new SyntaxError("an object has a name twice");
  return value;
}

function countMembers(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const values: unknown[] = Object.values(value);
  return values.reduce<number>((sum, v) => sum + countMembers(v), Array.isArray(value) ? 0 : values.length);
}

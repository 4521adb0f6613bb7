import type { MemoryToolHandlers } from "@anthropic-ai/sdk/helpers/beta/memory";
import { WrongMemoryError, type FoundMemory, type Memory, type MemoryLedger, type NewMemory } from "@memory-ledger/client";

export interface MemoryToolOptions {
  /** Where the files are; "memory-tool" by default. Tools with different namespaces share no files. */
  namespace?: string | undefined;
}

type Command<Name extends keyof MemoryToolHandlers> = Parameters<MemoryToolHandlers[Name]>[0];

/** The memories that are the current version of each file, by path, the newest first. */
type Tree = Map<string, [FoundMemory, ...FoundMemory[]]>;

const root = "/memories";
const source = "memory tool";

/**
 * The handlers of Anthropic's memory tool, for `betaMemoryTool`. A file is a memory, and
 * metadata.path is its path. An edit or a new name is a memory that supersedes the one before.
 * To delete a file is to retract all its versions. The key needs the scopes read, write and
 * retract. Failures are thrown: the SDK tells them to the model.
 */
export class MemoryTool implements MemoryToolHandlers {
  readonly #ledger: MemoryLedger;
  readonly #namespace: string;
  #last: Promise<unknown> = Promise.resolve();

  constructor(ledger: MemoryLedger, options: MemoryToolOptions = {}) {
    this.#ledger = ledger;
    this.#namespace = options.namespace ?? "memory-tool";
  }

  view(command: Command<"view">): Promise<string> {
    return this.#inTurn(async () => {
      const path = checked(command.path);
      const file = await this.#open(path);
      if (file === undefined) return listing(path, await this.#tree());
      const lines = file.text.split("\n"), [start = 1, end = -1] = command.view_range ?? [], first = Math.max(1, start);
      return `Here's the content of ${path} with line numbers:\n${numbered(lines.slice(first - 1, end === -1 ? lines.length : end), first)}`;
    });
  }

  create(command: Command<"create">): Promise<string> {
    return this.#inTurn(async () => {
      const path = checked(command.path);
      if (isTaken(path, await this.#tree())) throw new Error(`File ${path} already exists`);
      await this.#ledger.memories.store(this.#version(path, command.file_text, []));
      return `File created successfully at: ${path}`;
    });
  }

  str_replace(command: Command<"str_replace">): Promise<string> {
    return this.#inTurn(async () => {
      const path = checked(command.path), { old_str } = command, new_str = command.new_str ?? ""; // some models send null
      const file = await this.#open(path);
      if (file === undefined) throw new Error(`The path ${path} does not exist. Please provide a valid path.`);
      const found: number[] = [];
      for (let at = file.text.indexOf(old_str); at >= 0 && old_str !== ""; at = file.text.indexOf(old_str, at + 1)) found.push(at);
      if (found.length === 0) throw new Error(`No replacement was performed, old_str \`${old_str}\` did not appear verbatim in ${path}.`);
      const line = (at: number): number => file.text.slice(0, at).split("\n").length;
      if (found.length > 1) {
        throw new Error(`No replacement was performed. Multiple occurrences of old_str \`${old_str}\` in lines: ${found.map(line).join(", ")}. Please ensure it is unique`);
      }
      const text = file.text.slice(0, found[0]) + new_str + file.text.slice(found[0]! + old_str.length);
      await this.#ledger.memories.store(this.#version(path, text, file.versions));
      const from = Math.max(0, line(found[0]!) - 3), to = line(found[0]!) + new_str.split("\n").length + 1;
      return `The memory file has been edited. Here is the snippet showing the change (with line numbers):\n${numbered(text.split("\n").slice(from, to), from + 1)}`;
    });
  }

  insert(command: Command<"insert">): Promise<string> {
    return this.#inTurn(async () => {
      const path = checked(command.path), { insert_line, insert_text } = command;
      const file = await this.#open(path);
      if (file === undefined) throw new Error(`The path ${path} does not exist`);
      const lines = file.text.split("\n");
      if (!Number.isInteger(insert_line) || insert_line < 0 || insert_line > lines.length) {
        throw new Error(`Invalid \`insert_line\` parameter: ${insert_line}. It should be within the range of lines of the file: [0, ${lines.length}]`);
      }
      lines.splice(insert_line, 0, insert_text.replace(/\n$/, ""));
      await this.#ledger.memories.store(this.#version(path, lines.join("\n"), file.versions));
      return `The file ${path} has been edited.`;
    });
  }

  delete(command: Command<"delete">): Promise<string> {
    return this.#inTurn(async () => {
      const path = checked(command.path);
      if (path === root) throw new Error(`Cannot delete the ${root} directory itself`);
      const tree = await this.#tree(), gone = within(path, tree);
      if (gone.size === 0) throw new Error(`The path ${path} does not exist`);
      const versions = new Map<string, FoundMemory>();
      for (const file of new Set([...gone.values()].flat().flatMap(filesOf))) {
        for (const version of await this.#find({ files: file }, true)) versions.set(version.id, version);
      }
      // A file elsewhere has the same ids if one program renamed the file while another edited it.
      for (const [at, current] of tree) if (!gone.has(at)) for (const { id } of current) versions.delete(id);
      // A version that is taken back makes the one before it current again, so the oldest is
      // first. If this breaks off, the files are still there, and can be deleted again.
      for (const { id } of [...versions.values()].sort((a, b) => a.leafIndex - b.leafIndex)) await this.#ledger.memories.retract(id);
      return `Successfully deleted ${path}`;
    });
  }

  rename(command: Command<"rename">): Promise<string> {
    return this.#inTurn(async () => {
      const from = checked(command.old_path), to = checked(command.new_path);
      if (from === root) throw new Error(`Cannot rename the ${root} directory itself`);
      const tree = await this.#tree(), moved = within(from, tree);
      if (moved.size === 0) throw new Error(`The path ${from} does not exist`);
      if (isTaken(to, tree) || to.startsWith(`${from}/`)) throw new Error(`The destination ${to} already exists`);
      const renamed: NewMemory[] = [];
      for (const [path, versions] of moved) renamed.push(this.#version(to + path.slice(from.length), await this.#text(path, versions[0]), versions));
      await this.#ledger.memories.writeBatch(renamed);
      return `Successfully renamed ${from} to ${to}`;
    });
  }

  /** Runs one command after the other: a model may call several at once, and an edit reads before it writes. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run, run);
    this.#last = result;
    return result;
  }

  /**
   * Finds versions of files, the newest first. What other people left through a drop is not
   * among them: they choose its metadata, but a file is for the model to rely on.
   */
  async #find(metadata: Record<string, unknown>, superseded = false): Promise<FoundMemory[]> {
    const found: FoundMemory[] = [];
    const filter = { source, namespace: this.#namespace, superseded, metadata };
    for await (const memory of this.#ledger.memories.search("", { order: "newest", filter })) {
      const { path, files } = memory.metadata;
      if ((memory.imported ?? memory).via?.kind !== "drop" && typeof path === "string" && Array.isArray(files)) found.push(memory);
    }
    return found;
  }

  async #tree(): Promise<Tree> {
    const tree: Tree = new Map();
    for (const memory of await this.#find({})) {
      const path = memory.metadata["path"] as string, others = tree.get(path);
      if (others) others.push(memory);
      else tree.set(path, [memory]);
    }
    return tree;
  }

  /** Returns the text of a file with its current versions. There are several if programs wrote at once: the newest counts. */
  async #open(path: string): Promise<{ text: string; versions: FoundMemory[] } | undefined> {
    const versions = await this.#find({ path });
    return versions[0] && { text: await this.#text(path, versions[0]), versions };
  }

  /** Returns the text of a version. Searches are not checked, so this gets it by a call that is. */
  async #text(path: string, { id }: FoundMemory): Promise<string> {
    const { content, metadata } = await this.#ledger.memories.get(id);
    if (metadata["path"] !== path) throw new WrongMemoryError("metadata.path", `it is ${metadata["path"]}, not ${path}`, "service");
    return metadata["empty"] === true ? "" : content;
  }

  /** Makes the memory that is the next version of a file. All versions have an id of the file in common, whatever its path. */
  #version(path: string, text: string, before: readonly FoundMemory[]): NewMemory {
    const replaced = before.slice(0, 16); // as many as a memory may supersede
    return {
      content: text === "" ? "(an empty file)" : text, source, namespace: this.#namespace,
      metadata: { path, files: replaced.length > 0 ? [...new Set(replaced.flatMap(filesOf))] : [crypto.randomUUID()], ...(text === "" && { empty: true }) },
      ...(replaced.length > 0 && { supersedes: replaced.map(({ id }) => id) }),
    };
  }
}

const filesOf = ({ metadata }: Memory | FoundMemory): string[] => metadata["files"] as string[];

/** Returns a path without a slash at its end. Refuses what could leave the folder anywhere, or forge a line of a listing. */
function checked(path: string): string {
  if (path !== root && !path.startsWith(`${root}/`)) throw new Error(`Path must start with ${root}, got: ${path}`);
  const names = path.replace(/\/$/, "").slice(1).split("/");
  if (names.some((name) => name === "" || name === "." || name === "..") || /[\\\p{Cc}\p{Zl}\p{Zp}]|%2e|%2f|%5c/iu.test(path)) {
    throw new Error(`Path ${path} would escape ${root} directory`);
  }
  return `/${names.join("/")}`;
}

/** Returns the files at a path or below it. */
function within(path: string, tree: Tree): Tree {
  return new Map([...tree].filter(([at]) => at === path || at.startsWith(`${path}/`)));
}

/** Whether a path is a file or a folder, or below a file. Folders are the paths above files. */
function isTaken(path: string, tree: Tree): boolean {
  return path === root || within(path, tree).size > 0 || [...tree.keys()].some((file) => path.startsWith(`${file}/`));
}

function listing(path: string, tree: Tree): string {
  const inside = within(path, tree), sizes = new Map<string, number>();
  if (inside.size === 0 && path !== root) throw new Error(`The path ${path} does not exist. Please provide a valid path.`);
  let total = 0;
  for (const [file, [{ content, metadata }]] of inside) {
    const bytes = metadata["empty"] === true ? 0 : new TextEncoder().encode(content).length, names = file.slice(path.length + 1).split("/");
    if (names.some((name) => name.startsWith(".") || name === "node_modules")) continue;
    total += bytes;
    for (let depth = 1; depth <= Math.min(2, names.length); depth++) {
      const entry = names.slice(0, depth).join("/") + (depth < names.length ? "/" : "");
      sizes.set(entry, (sizes.get(entry) ?? 0) + bytes);
    }
  }
  const order = (entry: string): string => entry.replaceAll("/", "\0"); // a folder's content follows it
  const entries = [...sizes].sort(([a], [b]) => (order(a) < order(b) ? -1 : 1)).map(([entry, bytes]) => `${size(bytes)}\t${path}/${entry}`);
  return [`Here're the files and directories up to 2 levels deep in ${path}, excluding hidden items and node_modules:`, `${size(total)}\t${path}`, ...entries].join("\n");
}

function size(bytes: number): string {
  const [unit, power] = bytes < 1024 ? ["B", 0] : bytes < 1024 ** 2 ? ["K", 1] : ["M", 2];
  return `${+(bytes / 1024 ** power).toFixed(1)}${unit}`;
}

const numbered = (lines: string[], first: number): string => lines.map((line, n) => `${String(first + n).padStart(6)}\t${line}`).join("\n");

import {
  BaseStore, InMemoryStore, validateNamespace, type Item, type ListNamespacesOperation, type Operation, type OperationResults, type PutOperation, type SearchItem, type SearchOperation,
} from "@langchain/langgraph-checkpoint";
import { WrongMemoryError, type FoundMemory, type Memory, type MemoryLedger, type NewMemory } from "@memory-ledger/client";

export interface LedgerStoreOptions {
  /** Where the items are; "langgraph" by default. Stores with different namespaces share no items. */
  namespace?: string | undefined;
}

const source = "langgraph";

/** The most memories that the service writes at once. */
const maxBatch = 256;

/**
 * A store of LangGraph. An item is a memory: its text is the value as JSON, and its metadata has
 * the item's key and namespace. To put an item again is to supersede it, and to delete it is to
 * retract all its versions. The key needs the scopes read, write and retract.
 */
export class LedgerStore extends BaseStore {
  readonly #ledger: MemoryLedger;
  readonly #namespace: string;

  constructor(ledger: MemoryLedger, options: LedgerStoreOptions = {}) {
    super();
    this.#ledger = ledger;
    this.#namespace = options.namespace ?? "langgraph";
  }

  /**
   * Runs the reads, then the writes. Of several writes of an item, the last counts. All puts
   * are stored or none, up to 256; then the deletions follow.
   */
  async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const results: unknown[] = [], writes = new Map<string, PutOperation>();
    for (const op of operations) if ("namespace" in op) validateNamespace(op.namespace, { allowReservedRoot: true });
    for (const op of operations) {
      if ("namespacePrefix" in op) results.push(await this.#search(op));
      else if (!("namespace" in op)) results.push(await this.#listNamespaces(op));
      else if (!("value" in op)) results.push(await this.#get(pathOf(op.namespace), op.key));
      else {
        writes.set(JSON.stringify([op.namespace, op.key]), op);
        results.push(null);
      }
    }
    const puts: NewMemory[] = [];
    for (const op of writes.values()) if (op.value !== null) puts.push(await this.#version(op, op.value));
    for (let n = 0; n < puts.length; n += maxBatch) await this.#ledger.memories.writeBatch(puts.slice(n, n + maxBatch));
    for (const op of writes.values()) if (op.value === null) await this.#delete(op);
    return results as OperationResults<Op>;
  }

  /** Searches are not checked by the client, so this gets the item by a call that is. */
  async #get(path: string, key: string): Promise<Item | null> {
    for await (const { id } of this.#find({ path, key })) {
      const memory = await this.#ledger.memories.get(id);
      if (memory.metadata["path"] !== path || memory.metadata["key"] !== key) throw new WrongMemoryError("metadata", `it is of another item than ${key} in ${path}`, "service");
      return itemOf(memory);
    }
    return null;
  }

  async #search({ namespacePrefix, query, filter, offset = 0, limit = 10 }: SearchOperation): Promise<SearchItem[]> {
    validateNamespace(namespacePrefix, { allowEmpty: true, allowReservedRoot: true });
    const found: SearchItem[] = [], seen = new Set<string>();
    if (limit <= 0) return found;
    for await (const memory of this.#find(namespacePrefix.length > 0 ? { within: pathOf(namespacePrefix) } : {}, { query })) {
      const item = itemOf(memory), name = JSON.stringify([item.namespace, item.key]);
      if (seen.has(name) || !(await matches(item, filter))) continue;
      seen.add(name);
      if (seen.size > offset) found.push({ ...item, score: memory.score });
      if (found.length === limit) break;
    }
    return found;
  }

  /** The library's own store finds and cuts the namespaces: this gives it an item in each. */
  async #listNamespaces(op: ListNamespacesOperation): Promise<string[][]> {
    const namespaces = new Map<string, string[]>(), store = new InMemoryStore();
    for await (const { metadata } of this.#find({})) namespaces.set(metadata["path"] as string, (metadata["path"] as string).split("."));
    for (const namespace of namespaces.values()) await store.batch([{ namespace, key: "", value: {} }]);
    return (await store.batch([{ matchConditions: [], ...op }]))[0]!;
  }

  /** Makes the memory that is the next version of an item. Several are current if programs put it at once. */
  async #version({ namespace, key }: PutOperation, value: object): Promise<NewMemory> {
    const path = pathOf(namespace), current: FoundMemory[] = [];
    for await (const memory of this.#find({ path, key })) if (current.length < 16) current.push(memory); // as many as a memory may supersede
    return {
      content: JSON.stringify(value), source, namespace: this.#namespace,
      metadata: {
        key, path, within: namespace.map((_, n) => pathOf(namespace.slice(0, n + 1))),
        ...(current[0] && { created: itemOf(current[0]).createdAt }),
      },
      ...(current.length > 0 && { supersedes: current.map(({ id }) => id) }),
    };
  }

  async #delete({ namespace, key }: PutOperation): Promise<void> {
    const versions: FoundMemory[] = [];
    for await (const memory of this.#find({ path: pathOf(namespace), key }, { superseded: true })) versions.push(memory);
    // A version that is taken back makes the one before it current again, so the oldest is
    // first. If this breaks off, the item is still there, and can be deleted again.
    for (const { id } of versions.reverse()) await this.#ledger.memories.retract(id);
  }

  /**
   * Finds versions of items: by a query the best first, else the newest. What other people left
   * through a drop is not among them: they choose its metadata.
   */
  async *#find(metadata: Record<string, unknown>, { query = "", superseded = false }: { query?: string; superseded?: boolean } = {}): AsyncGenerator<FoundMemory> {
    const how = query === "" ? { order: "newest" as const } : { mode: "ranked" as const };
    for await (const memory of this.#ledger.memories.search(query, { ...how, filter: { source, namespace: this.#namespace, superseded, metadata } })) {
      const { key, path } = memory.metadata;
      if ((memory.imported ?? memory).via?.kind !== "drop" && typeof key === "string" && typeof path === "string") yield memory;
    }
  }
}

/** Labels have no periods: validateNamespace refuses them. */
const pathOf = (namespace: readonly string[]): string => namespace.join(".");

function itemOf({ content, metadata, createdAt }: Memory | FoundMemory): Item {
  return {
    value: JSON.parse(content) as Record<string, unknown>, key: metadata["key"] as string, namespace: (metadata["path"] as string).split("."),
    createdAt: new Date((metadata["created"] as string | undefined) ?? createdAt), updatedAt: new Date(createdAt),
  };
}

/** Whether an item passes a filter, by the rules of the library's own store. */
async function matches({ namespace, key, value }: Item, filter: SearchOperation["filter"]): Promise<boolean> {
  if (filter === undefined) return true;
  const store = new InMemoryStore();
  await store.batch([{ namespace, key, value }]);
  return (await store.search([], { filter })).length > 0;
}

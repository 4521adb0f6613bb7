// The queue of what was saved and is not known to be stored. It is an array in storage.local:
// {key, url, owner, body, problem?}. The key is the Idempotency-Key of every attempt. url and
// owner say to which service and wallet the entry belongs; owner is null where no wallet had
// signed in yet. problem is why the service refused it for good.

/** What the service will refuse again, however often it is sent. */
const refusals = [400, 413, 422];

export class Queue {
  #storage;
  #lock;

  /**
   * @param storage as chrome.storage.local
   * @param lock (name, fn) => the result of fn, which runs alone among all pages and the worker
   */
  constructor(storage, lock) {
    this.#storage = storage;
    this.#lock = lock;
  }

  async entries() {
    return (await this.#storage.get('queue')).queue ?? [];
  }

  #change(change) {
    return this.#lock('queue', async () => this.#storage.set({ queue: change(await this.entries()) }));
  }

  /** Keeps an entry. When this resolves, it survives a crash. */
  add(entry) {
    return this.#change((queue) => [...queue, entry]);
  }

  remove(key) {
    return this.#change((queue) => queue.filter((entry) => entry.key !== key));
  }

  /**
   * Sends the entries of a session, {url, owner}, in the order they were saved. A crash between
   * an answer and its removal leaves the entry: it is sent again with the same key, and stored
   * once. Throws what send throws for a failure that may pass; that entry and later ones stay.
   * @param send (entry) => resolves when it is stored; errors of the service have a status
   * @returns how many were stored
   */
  flush(session, send) {
    return this.#lock('sending', async () => {
      let stored = 0;
      for (const entry of sendable(await this.entries(), session)) {
        try {
          await send(entry);
        } catch (error) {
          if (!refusals.includes(error.status)) throw error;
          await this.#change((queue) => queue.map((e) => (e.key === entry.key ? { ...e, problem: error.message } : e)));
          continue;
        }
        await this.remove(entry.key);
        stored++;
      }
      return stored;
    });
  }
}

/** The entries that a session may send: never one wallet's to another wallet's log. */
export function sendable(entries, session) {
  return entries.filter((entry) => !entry.problem && entry.url === session.url && (entry.owner ?? session.owner) === session.owner);
}

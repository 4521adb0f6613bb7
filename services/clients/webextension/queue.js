// The queue of saves that are not known to be stored. It is an array in storage.local:
// {key, url, owner, body, problem?}. key is the Idempotency-Key of every attempt. url and owner
// name the service and the wallet of the entry; owner is null if no wallet had signed in yet.
// problem is the reason of a final refusal.

/** Statuses of final refusals: the entry would be refused again. 403 is a gateway's, which dislikes this text. */
const refusals = [400, 403, 413, 422];

export class Queue {
  #storage;
  #lock;
  #next; // the flush that has not begun

  /**
   * @param storage as chrome.storage.local
   * @param lock (name, fn) => the result of fn; only one fn per name runs at a time, across all
   *   pages and the worker
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

  /** Stores an entry. Once this resolves, the entry survives a crash. */
  add(entry) {
    return this.#change((queue) => [...queue, entry]);
  }

  remove(key) {
    return this.#change((queue) => queue.filter((entry) => entry.key !== key));
  }

  /** Has an entry sent again that was refused. */
  retry(key) {
    return this.#change((queue) => queue.map((e) => (e.key === key ? { ...e, problem: undefined } : e)));
  }

  /**
   * Sends the entries of a session, {url, owner}, in the order they were saved. A crash between
   * an answer and the removal of its entry leaves the entry in the queue: it is sent again with
   * the same key, and stored once. Rethrows the error of a failure that may pass; that entry and
   * later entries stay. Calls during a flush share the next one: otherwise each entry that a
   * flush removes would have a service tried again that has just refused.
   * @param session () => the session, or undefined
   * @param send (entry, session) => resolves when the entry is stored; errors of the service have a status
   * @returns the number of entries stored
   */
  flush(session, send) {
    return this.#next ??= this.#lock('sending', async () => {
      this.#next = undefined;
      const to = await session();
      let stored = 0;
      for (const entry of to ? sendable(await this.entries(), to) : []) {
        try {
          await send(entry, to);
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

/** Returns the entries that a session may send. An entry of one wallet never goes to another wallet's log. */
export function sendable(entries, session) {
  return entries.filter((entry) => !entry.problem && entry.url === session.url && (entry.owner ?? session.owner) === session.owner);
}

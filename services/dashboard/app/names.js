// What people call keys and links: by label, and by when they were made.
import { useFresh } from './parts.js';

/** Loads the owner's API keys and apps, with those that were revoked: [keys, error, again]. */
export const useApiKeys = (api) => useFresh(api, () => api.ledger.keys.list(), ['ApiKeyCreated', 'ApiKeyRevoked']);

/** Names a key. keys is undefined while they are loaded. */
export function keyName(keys, id) {
  const key = keys?.find((k) => k.id === id);
  return !key ? 'an API key' : key.app ? `the app “${key.label}”` : `the API key “${key.label}”`;
}

/** Returns when a key, session or link was made: its id is a UUIDv7. */
export const madeAt = (id) => parseInt(id.replaceAll('-', '').slice(0, 12), 16);

// @ts-check
/** Requests to the API of the activator. */

/** Time-out of a request, in milliseconds. */
const TIMEOUT = 10_000;

/** Describe an error for people. @param {unknown} error */
export function describeError(error) {
  if (error instanceof TypeError) return "no response"; // browsers report each network error as a TypeError
  if (error instanceof SyntaxError) return "a response that is not JSON";
  return error instanceof Error ? error.message : String(error);
}

/**
 * Get a document of the API.
 * @param {string} path
 * @returns {Promise<any>} the document; null for status 404
 * @throws {Error} no response, another status, or no JSON
 */
export async function getJson(path) {
  const response = await fetch(path, {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(TIMEOUT),
  });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

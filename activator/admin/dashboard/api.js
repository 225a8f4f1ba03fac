// @ts-check
/** Asks the activator. */

/** After this an answer is not waited for any longer. */
const PATIENCE = 10_000;

/** What an attempt met, for people. @param {unknown} error */
export function wordsOf(error) {
  if (error instanceof TypeError) return "no answer"; // what browsers make of any network's error
  if (error instanceof SyntaxError) return "an answer that is not the activator's";
  return error instanceof Error ? error.message : String(error);
}

/**
 * Ask the API.
 * @param {string} path
 * @returns {Promise<any>} the answer; null if there is no such thing
 * @throws {Error} there was no answer, or none that says anything
 */
export async function answerOf(path) {
  const response = await fetch(path, {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(PATIENCE),
  });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

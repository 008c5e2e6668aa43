// The data of the page, questions to the server, and attention weights between tokens or words.

const packed = Uint8Array.from(atob(document.getElementById("data").textContent), byte => byte.charCodeAt(0));

/** What the page was made with: recorded explorations, or the runs of a server that answers questions. */
export const page = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

export const isLive = Boolean(page.live);

/** The answer of the server, or of the kernel of a notebook. Throws an Error with its message. */
export async function ask(kind, body) {
  return page.live === "notebook" ? askKernel(kind, body) : (await post(kind, body)).json();
}

/** The response of the server. Throws an Error with its message. */
export async function post(kind, body) {
  const headers = { "Content-Type": "application/json" },
    response = await fetch(`v1/${kind}`, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => null);
  if (!response)
    throw new Error(`The server does not answer; start it again: seq2attn explore RUN --port ${location.port}`);
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({})); // a server that fails says so in plain text
  throw new Error(error ?? `the server failed: ${response.status} ${response.statusText}`);
}

let numQuestions = 0;

function askKernel(kind, body) {
  const id = ++numQuestions;
  return new Promise((resolve, reject) => {
    addEventListener("message", function receive({ data }) {
      if (data?.id !== id) return;
      removeEventListener("message", receive);
      data.error ? reject(new Error(data.error)) : resolve(data.answer);
    });
    parent.postMessage({ id, kind, body }, "*");
  });
}

export const largest = numbers => numbers.reduce((a, b) => Math.max(a, b), 0);

export const sum = numbers => numbers.reduce((a, b) => a + b, 0);

const MEAN = "mean";

/** The names of the heads of a map, with their mean. */
export const headNames = map => (map.heads.length > 1 && !map.heads.includes(MEAN) ? [...map.heads, MEAN] : map.heads);

/** The weights [queries][keys] of a layer and a head, by their indices in `layers` and `headNames`. */
export function matrix(map, layer, head) {
  const heads = map.weights[layer];
  if (head < heads.length) return heads[head].map(row => row.map(w => w / 1000));
  return heads[0].map((row, q) => row.map((_, k) => sum(heads.map(one => one[q][k])) / heads.length / 1000));
}

/** Weights between words: summed over the tokens of a key word, averaged over those of a query word. */
export function byWord(weights, queries, keys) {
  const rows = queries.words.map(() => keys.words.map(() => 0)),
    sizes = queries.words.map(() => 0);
  weights.forEach((row, q) => {
    const word = queries.word_ids[q];
    sizes[word] += 1;
    row.forEach((w, k) => {
      rows[word][keys.word_ids[k]] += w;
    });
  });
  return rows.map((row, q) => row.map(w => w / (sizes[q] || 1)));
}

/** Weights as shares of the full color: of 1, of the largest weight, or of the largest of each row. */
export function shares(weights, scale, full = largest(weights.map(largest))) {
  return weights.map(row => {
    const top = { "0-1": 1, row: largest(row), max: full }[scale] || 1;
    return row.map(w => Math.min(1, w / top));
  });
}

/** What rows of weights look like: one position each (hard), never moving to the left (monotonic), or windows. */
export function shape(weights, windows) {
  const places = weights.map(row => row.findIndex(w => w > 0));
  const isHard = Boolean(windows) && windows.every(([first, last]) => first >= last); // a row may have no weight
  const chosen = places.filter(place => place >= 0);
  const isMonotonic = isHard && chosen.every((place, i) => !i || place >= chosen[i - 1]);
  return { isHard, isMonotonic, places, windows: isHard ? null : windows };
}

// Where the page is served: what the server knows, and how it keeps decisions. All addresses are below that of the page.

class Server {
  #revision = "";
  #waiting = null;
  #last = null;
  #busy = false;
  #ended = false;
  #told;
  #known = new Map();

  // told is called after each attempt to save: with "", or with what is wrong.
  constructor(told) {
    this.#told = told;
  }

  // The decisions so far, as bytes.
  async decisions() {
    const answer = await this.#ask("decisions");
    this.#revision = answer.headers.get("ETag");
    return answer.arrayBuffer();
  }

  async search(text, language) {
    return (await this.#ask(`search?${new URLSearchParams({ text, language })}`)).json();
  }

  concept(id, language) {
    const key = `${language} ${id}`;
    if (!this.#known.has(key)) {
      this.#known.set(key, this.#ask(`concept?${new URLSearchParams({ id, language })}`).then((answer) => answer.json()).catch(() => null));
    }
    return this.#known.get(key);
  }

  // Saves the whole file. Of several that wait the last is sent, which holds what the others do.
  async put(text) {
    if (text === this.#last || this.#ended) return;
    this.#waiting = this.#last = text;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting !== null) {
      const sent = this.#waiting;
      this.#waiting = null;
      try {
        const answer = await this.#ask("decisions", { method: "PUT", body: sent, headers: { "If-Match": this.#revision } });
        this.#revision = answer.headers.get("ETag");
        if (this.#waiting === null) this.#told("");
      } catch (error) {
        this.#last = null;
        this.#ended = error.cause === 412;
        this.#told(error.message);
        break;
      }
    }
    this.#waiting = null;
    this.#busy = false;
  }

  async #ask(path, options = {}) {
    let answer;
    try {
      answer = await fetch(path, { cache: "no-store", ...options });
    } catch {
      throw new Error("Not saved: medlink review does not answer. Save the decisions as a file, start it again, and open its new address.");
    }
    if (!answer.ok) throw new Error(await answer.text(), { cause: answer.status });
    return answer;
  }
}

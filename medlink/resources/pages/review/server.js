// Requests to the server of a served page: concepts and decisions. All URLs are relative to the page.

class Server {
  #revision = "";
  #waiting = null;
  #last = null;
  #busy = false;
  #ended = false;
  #onSaved;
  #known = new Map();

  // onSaved is called after each attempt to save: with "", or with the problem.
  constructor(onSaved) {
    this.#onSaved = onSaved;
  }

  // The decisions so far, as bytes.
  async decisions() {
    const answer = await this.#request("decisions");
    this.#revision = answer.headers.get("ETag");
    return answer.arrayBuffer();
  }

  async search(text, language) {
    return (await this.#request(`search?${new URLSearchParams({ text, language })}`)).json();
  }

  concept(id, language) {
    const key = `${language} ${id}`;
    if (!this.#known.has(key)) {
      this.#known.set(key, this.#request(`concept?${new URLSearchParams({ id, language })}`).then((answer) => answer.json()).catch(() => null));
    }
    return this.#known.get(key);
  }

  // Saves the complete file. Of several waiting versions only the last is sent, because it contains the others.
  async put(text) {
    if (text === this.#last || this.#ended) return;
    this.#waiting = this.#last = text;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting !== null) {
      const sent = this.#waiting;
      this.#waiting = null;
      try {
        const answer = await this.#request("decisions", { method: "PUT", body: sent, headers: { "If-Match": this.#revision } });
        this.#revision = answer.headers.get("ETag");
        if (this.#waiting === null) this.#onSaved("");
      } catch (error) {
        this.#last = null;
        this.#ended = error.cause === 412;
        this.#onSaved(error.message);
        break;
      }
    }
    this.#waiting = null;
    this.#busy = false;
  }

  async #request(path, options = {}) {
    let answer;
    try {
      answer = await fetch(path, { cache: "no-store", ...options });
    } catch {
      throw new Error("Not saved: medlink review is not running. Save the decisions as a file, start it again, and open the new address.");
    }
    if (!answer.ok) {
      const sentence = await answer.json().then((problem) => problem.detail, () => answer.statusText);
      throw new Error(sentence, { cause: answer.status });
    }
    return answer;
  }
}

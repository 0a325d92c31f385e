// Search runs in a worker, and browsers start none for pages that are opened from files. This class
// has what the search uses of a worker, and runs the script in a frame that nobody sees. The script
// looks for the name IFrameWorker to learn where it is.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const page = inside.document;
      page.open();
      page.write("<!doctype html><body></body>");
      page.close();
      inside.postMessage = (data) => this.hand(data);
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.run(next)), Promise.resolve());
      this.ready = this.run(url);
    }
    run(url) {
      return new Promise((done, failed) => {
        const page = this.frame.contentDocument;
        const script = page.createElement("script");
        Object.assign(script, { src: url, onload: done, onerror: failed });
        page.body.append(script);
      });
    }
    hand(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      );
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = window.Worker = IFrameWorker;
}

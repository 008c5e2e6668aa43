// The page in a frame of a notebook: questions go to the kernel as messages, and come back as answers.

export default {
  render({ model, el }) {
    const frame = Object.assign(document.createElement("iframe"), { srcdoc: model.get("page") });
    frame.style = "width: 100%; height: 820px; border: 0";
    const ask = event => event.source === frame.contentWindow && model.send(event.data);
    addEventListener("message", ask);
    model.on("msg:custom", answer => frame.contentWindow.postMessage(answer, "*"));
    el.append(frame);
    return () => removeEventListener("message", ask);
  },
};

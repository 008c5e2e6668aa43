// The page in a frame of a notebook: questions go to the kernel as messages, and come back as answers.

export default {
  render({ model, el }) {
    const frame = Object.assign(document.createElement("iframe"), { srcdoc: model.get("page") });
    frame.style = "width: 100%; height: 820px; border: 0";
    const view = Math.random(); // answers reach all views of the widget, whose pages count questions alike
    const ask = ({ source, data }) => source === frame.contentWindow && model.send({ ...data, id: [view, data.id] });
    const answer = ({ id: [asking, id], ...found }) =>
      asking === view && frame.contentWindow.postMessage({ ...found, id }, "*");
    addEventListener("message", ask);
    model.on("msg:custom", answer);
    el.append(frame);
    return () => {
      removeEventListener("message", ask);
      model.off("msg:custom", answer);
    };
  },
};

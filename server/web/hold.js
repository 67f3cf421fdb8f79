// One way to hold something down, for every hand: a button under the pointer or the focus, the space key anywhere but in
// a field, a screen reader's click. Knows nothing of what is begun and ended by it.

const isPressKey = (event) => event.key === " " || event.key === "Enter";
const isControl = (node) => node.closest("input:not([type=range]), textarea, select, button, summary, a, dialog, [contenteditable]");
const isBareSpace = (event) => event.key === " " && !event.ctrlKey && !event.altKey && !event.metaKey && !isControl(event.target);

// `press()` begins, or ends what has begun. `release(end)`: let go; only a long press ends with it, unless `end`.
export function holdToTalk(button, press, release) {
  const on = (node, kind, act) => node.addEventListener(kind, act);
  on(button, "pointerdown", (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    press();
  });
  on(button, "pointerup", () => release(false));
  on(button, "pointercancel", () => release(false));
  on(button, "contextmenu", (event) => event.preventDefault());
  // A click without a pointer or a key comes from a screen reader.
  on(button, "click", (event) => event.detail === 0 && !event.pointerType && press());
  for (const [node, isMine] of [[button, isPressKey], [document, isBareSpace]]) {
    on(node, "keydown", (event) => {
      if (!isMine(event)) return;
      event.preventDefault(); // the page would scroll, the button be clicked
      if (!event.repeat) press();
    });
    on(node, "keyup", (event) => {
      if (!isMine(event)) return;
      event.preventDefault();
      release(false);
    });
  }
  // The key may be let go over another window: nobody would hear of it.
  on(window, "blur", () => release(false));
}

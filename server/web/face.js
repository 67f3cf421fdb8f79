// Draws the robot: a head with a screen, two dot eyes and a mouth line, and moves it. Knows emotion and action ids and
// what the robot is doing; nothing of servers, sound or language. Sides are the robot's own: its left is the viewer's right.

const SVG = "http://www.w3.org/2000/svg";
const EYE_RADIUS = 13;

const dot = (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`;
// A dot whose top is cut by an eyelid; `degrees` tilts the lid, `low` (0..1) lowers it.
function lidded(degrees, low) {
  const r = EYE_RADIUS + 2;
  const point = (angle) => `${(r * Math.cos(angle)).toFixed(2)} ${(r * Math.sin(angle)).toFixed(2)}`;
  const lid = Math.asin(1 - low);
  const tilt = (degrees * Math.PI) / 180;
  return `M${point(tilt - lid)}A${r} ${r} 0 ${low < 1 ? 1 : 0} 1 ${point(tilt + Math.PI + lid)}Z`;
}
const arch = "M-17 7Q0 -19 17 7L12 9Q0 -8 -12 9Z";
const shut = "M-17 -3H17V3H-17Z";

// mouth: half width, curve of its ends (+ smiles), opening at rest, tilt in degrees. mark: drawn beside the eyes.
const FACES = {
  neutral: { eyes: [dot(EYE_RADIUS), dot(EYE_RADIUS)], mouth: [42, 0, 0, 0] },
  happy: { eyes: [arch, arch], mouth: [42, 22, 0, 0], blush: true },
  sad: { eyes: [lidded(-24, 0.65), lidded(24, 0.65)], mouth: [28, -16, 0, 0], mark: ["#7cc4ff", "M84 168q-14 22 0 25q14 -3 0 -25Z"] },
  angry: { eyes: [lidded(26, 0.75), lidded(-26, 0.75)], mouth: [30, -10, 0, 0], mark: ["#ff6b57", "M312 62l6 16l16 6l-16 6l-6 16l-6 -16l-16 -6l16 -6Z"] },
  doubt: { eyes: [dot(EYE_RADIUS), lidded(0, 0.95)], mouth: [28, 0, 0, -10], mark: ["#7cc4ff", "M318 64q-14 22 0 25q14 -3 0 -25Z"] },
  sleepy: { eyes: [shut, shut], mouth: [18, 4, 7, 0], mark: ["#b9c4ff", "M276 90h20v5l-12 13h12v5h-20v-5l12 -13h-12ZM304 56h26v6l-16 17h16v6h-26v-6l16 -17h-16Z"] },
  surprised: { eyes: [dot(EYE_RADIUS + 7), dot(EYE_RADIUS + 7)], mouth: [16, 0, 30, 0] },
};

const to = (x, y, turn = 0) => ({ transform: `translate(${x}px, ${y}px) rotate(${turn}deg)` });
const still = to(0, 0);
const hold = (pose) => [still, { ...pose, offset: 0.2 }, { ...pose, offset: 0.75 }, still];
// head: the whole head; features: eyes and mouth on the screen, which makes a turn of the head look like one.
const ACTIONS = {
  nod: { ms: 1000, head: [still, to(0, 14), still, to(0, 14), still] },
  shake: { ms: 1000, head: [still, to(-12, 0), to(12, 0), to(-12, 0), still] },
  look_left: { ms: 2000, head: hold(to(9, 0)), features: hold(to(38, 0)) },
  look_right: { ms: 2000, head: hold(to(-9, 0)), features: hold(to(-38, 0)) },
  look_up: { ms: 2000, head: hold(to(0, -8)), features: hold(to(0, -34)) },
  look_down: { ms: 2000, head: hold(to(0, 8)), features: hold(to(0, 34)) },
  tilt: { ms: 1600, head: hold(to(0, 2, 11)) },
  dance: { ms: 2800, head: [still, to(-14, -5, -8), to(14, 0, 8), to(-14, -5, -8), to(14, 0, 8), still] },
  sleep: { ms: 3200, head: hold(to(0, 14, 3)), eyes: [{ transform: "scaleY(1)" }, { transform: "scaleY(0.12)", offset: 0.2 }, { transform: "scaleY(0.12)", offset: 0.85 }, { transform: "scaleY(1)" }] },
};

function draw(parent, name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return parent.appendChild(node);
}

export class Face {
  constructor(svg) {
    this.svg = svg;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    draw(svg, "rect", { class: "stand", x: 108, y: 270, width: 164, height: 76, rx: 16 });
    for (const x of [92, 206]) draw(svg, "rect", { class: "stand", x, y: 332, width: 82, height: 22, rx: 11 });
    this.head = draw(svg, "g", { class: "head" });
    draw(this.head, "rect", { class: "case", x: 12, y: 6, width: 356, height: 296, rx: 44 });
    draw(this.head, "rect", { class: "screen", x: 30, y: 34, width: 320, height: 240, rx: 14 });
    this.light = draw(this.head, "path", { class: "light", d: "M150 20h80" });
    this.features = draw(draw(this.head, "g", { class: "ponder" }), "g", { class: "features" });
    this.gaze = draw(this.features, "g", { class: "gaze" });
    this.blush = draw(this.features, "path", { class: "blush", d: "M62 178h36M282 178h36" });
    this.eyes = [118, 262].map((x) => draw(draw(this.gaze, "g", { transform: `translate(${x} 134)` }), "path", { class: "eye" }));
    this.mouth = draw(draw(this.features, "g", { transform: "translate(190 206)" }), "path", { class: "mouth" });
    this.mark = draw(this.head, "path", { class: "mark" });
    this.setEmotion("neutral");
    this.setDoing("");
    this.#blinkLater();
    this.#lookAboutLater();
  }

  // Show one of the emotions; an unknown id shows neutral.
  setEmotion(id) {
    this.emotion = Object.hasOwn(FACES, id) ? id : "neutral";
    const { eyes, mark, blush } = FACES[this.emotion];
    this.svg.dataset.emotion = this.emotion;
    this.eyes.forEach((eye, index) => eye.setAttribute("d", eyes[index]));
    this.mark.setAttribute("d", mark ? mark[1] : "");
    this.mark.setAttribute("fill", mark ? mark[0] : "none");
    this.blush.classList.toggle("shown", Boolean(blush));
    this.setMouth(0);
  }

  // Open the mouth: level 0 (as the emotion has it) to 1 (wide).
  setMouth(level) {
    const [half, curve, rest, tilt] = FACES[this.emotion].mouth;
    const width = half - 12 * level * (half / 42);
    const open = rest + 44 * level;
    const bow = width * 0.75; // how far the lips stay apart: towards a rounded rectangle
    const upper = `C${-bow} ${curve - open * 0.4} ${bow} ${curve - open * 0.4} ${width} 0`;
    const lower = `C${bow} ${curve + open} ${-bow} ${curve + open} ${-width} 0`;
    this.mouth.setAttribute("d", `M${-width} 0${upper}${lower}Z`);
    this.mouth.setAttribute("transform", `rotate(${tilt})`);
  }

  // Make a movement once; `none` and unknown ids move nothing. With reduced motion nothing moves.
  act(id) {
    this.svg.dataset.action = id;
    const action = Object.hasOwn(ACTIONS, id) ? ACTIONS[id] : null;
    if (!action || this.calm.matches) return;
    const timing = { duration: action.ms, easing: "ease-in-out" };
    this.head.animate(action.head, timing);
    if (action.features) this.features.animate(action.features, timing);
    if (action.eyes) this.eyes.forEach((eye) => eye.animate(action.eyes, timing));
  }

  // What the robot is doing: "listening", "thinking", "speaking", "lost" (nobody is connected to it) or "".
  setDoing(doing) {
    if (this.svg.dataset.doing === doing) return;
    this.svg.dataset.doing = doing;
    this.#look(0, 0);
  }

  #look(x, y) {
    this.gaze.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
  }

  get #isAwake() {
    return !this.calm.matches && !document.hidden && this.svg.dataset.doing !== "lost";
  }

  #blinkLater() {
    setTimeout(() => {
      const blinks = this.#isAwake && this.emotion !== "sleepy" && this.emotion !== "happy";
      if (blinks) this.eyes.forEach((eye) => eye.animate([{}, { transform: "scaleY(0.1)" }, {}], 160));
      this.#blinkLater();
    }, 2500 + 3500 * Math.random());
  }

  // Eyes are never quite still; whoever is listened to is looked at more steadily.
  #lookAboutLater() {
    setTimeout(() => {
      if (this.#isAwake) {
        const reach = { listening: 2, speaking: 5 }[this.svg.dataset.doing] ?? 9;
        this.#look(reach * (2 * Math.random() - 1), 0.6 * reach * (2 * Math.random() - 1));
      } else {
        this.#look(0, 0);
      }
      this.#lookAboutLater();
    }, 900 + 2200 * Math.random());
  }
}

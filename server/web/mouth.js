// Moves the mouth with the sound that is heard now, as long as there is any. Knows no sound and no face.

export class Mouth {
  // `open(level)`: shows 0 to 1. `now()`: the level at this moment; null: nothing is heard.
  constructor(open, now) {
    Object.assign(this, { open, now, following: false });
  }

  // Call it while a sound is heard, as often as you like.
  follow() {
    if (this.following) return;
    this.following = true;
    const step = () => {
      const level = this.now();
      this.open(level ?? 0);
      this.following = level !== null;
      if (this.following) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
}

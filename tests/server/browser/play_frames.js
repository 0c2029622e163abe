// Plays a film of numbered pictures, then seeks each from the last to the first: the numbers on screen, by their places.
async ([data, width, height, fps]) => {
  const video = document.createElement("video");
  document.body.append(video);
  const canvas = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  const number = () => {
    canvas.drawImage(video, 0, 0, width, height);
    const { data } = canvas.getImageData(0, 0, width, height);
    const bits = Array.from({ length: 12 }, (_, bit) => {
      const y = Math.floor((height * (2 * Math.floor(bit / 6) + 1)) / 4);
      const x = Math.floor((width * (2 * (bit % 6) + 1)) / 12);
      return data[4 * (y * width + x)] > 128 ? 1 << bit : 0;
    });
    return bits.reduce((sum, bit) => sum + bit, 0);
  };
  const failed = new Promise((_, no) => (video.onerror = () => no(new Error(video.error.message))));
  const until = (name) => Promise.race([new Promise((yes) => (video["on" + name] = yes)), failed]);
  const next = () => new Promise((yes) => video.requestVideoFrameCallback((_, { mediaTime }) => yes(mediaTime)));
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  video.muted = true;
  video.src = URL.createObjectURL(new Blob([bytes], { type: "video/mp4" }));
  await until("loadeddata");
  const ended = until("ended"), played = [], sought = [];
  const note = (_, { mediaTime }) => {
    played.push([Math.round(mediaTime * fps), number()]);
    video.requestVideoFrameCallback(note);
  };
  video.requestVideoFrameCallback(note);
  await video.play();
  await ended;
  const shown = [...played];
  for (let place = Math.round(video.duration * fps) - 1; place >= 0; place--) {
    const seeking = next();
    video.currentTime = (place + 0.5) / fps;
    await Promise.race([seeking, failed]);
    sought.push([place, number()]);
  }
  return { shown, sought, duration: video.duration };
}

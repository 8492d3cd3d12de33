// Show a hint below a table that continues to the right.
document.querySelectorAll(".scroll").forEach((box) => {
  const mark = () => box.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  const watch = new ResizeObserver(mark);
  [box, ...box.children].forEach((part) => watch.observe(part));
  box.addEventListener("scroll", mark, { passive: true });
});

document.querySelectorAll("button[data-copy]").forEach((button) => {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const answer = document.getElementById("copied");
    let done = true;
    try {
      await navigator.clipboard.writeText(source.value);
    } catch {
      // A page opened from a disk may have no clipboard: select the text and copy it the old way.
      source.hidden = false;
      source.select();
      done = document.execCommand("copy");
      source.hidden = true;
    }
    answer.textContent = done ? "Copied." : "Not copied: select the table instead.";
  });
});

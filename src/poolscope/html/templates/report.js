document.querySelectorAll("button[data-copy]").forEach((button) => {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const answer = document.getElementById("copied");
    let done = true;
    try {
      await navigator.clipboard.writeText(source.value);
    } catch {
      // A local file may have no clipboard access: select the text and copy it.
      source.hidden = false;
      source.select();
      done = document.execCommand("copy");
      source.hidden = true;
    }
    answer.textContent = done ? "Copied." : "Copying failed: select the table instead.";
  });
});

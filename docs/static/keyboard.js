// What scrolls sideways takes the focus, so that arrow keys scroll it.
function focusable() {
  for (const block of document.querySelectorAll("pre, .table-wrapper, article table")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
    else block.removeAttribute("tabindex");
  }
}
addEventListener("load", focusable);
addEventListener("resize", focusable);

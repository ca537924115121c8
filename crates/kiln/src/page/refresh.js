// Keeps the page current: asks for it again, and puts in what differs. Without scripts the page
// asks for itself every ten seconds.
"use strict";

const every = 2000;

function replace(fresh) {
  const old = document.getElementById("main");
  const now = fresh.getElementById("main");
  if (!old || !now) return;
  const ids = (main) => [...main.children].map((section) => section.id).join();
  if (ids(old) !== ids(now)) {
    old.innerHTML = now.innerHTML;
    document.querySelector("nav").innerHTML = fresh.querySelector("nav").innerHTML;
    return;
  }
  for (const section of now.children) {
    const body = section.querySelector(".body");
    const shown = document.getElementById(section.id).querySelector(".body");
    if (shown.innerHTML === body.innerHTML) continue;
    // Who has moved inside of something that scrolls stays where he is.
    const places = [...shown.querySelectorAll(".scroll")];
    const focus = places.indexOf(document.activeElement);
    const lefts = places.map((place) => place.scrollLeft);
    shown.innerHTML = body.innerHTML;
    const again = [...shown.querySelectorAll(".scroll")];
    again.forEach((place, at) => { place.scrollLeft = lefts[at] || 0; });
    if (focus >= 0 && again[focus]) again[focus].focus({ preventScroll: true });
  }
}

async function refresh() {
  const lost = document.getElementById("lost");
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    replace(fresh);
    document.getElementById("seen").textContent = fresh.getElementById("seen").textContent;
    if (lost.textContent) lost.textContent = "";
  } catch (error) {
    const words = "The coordinator does not answer. What is shown is old.";
    if (lost.textContent !== words) lost.textContent = words;
  }
  setTimeout(refresh, document.hidden ? 5 * every : every);
}

setTimeout(refresh, every);

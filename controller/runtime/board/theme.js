// Dark or light: as the system is, until the button is pressed.
const root = document.documentElement;
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { button.textContent = isDark() ? "light" : "dark"; };
button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
system.addEventListener("change", nameTheme);
nameTheme();

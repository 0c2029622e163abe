"use strict";
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = () => {
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line") };
    const paint = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--paper"),
                    "hoverlabel.font.color": colour("--ink"), "hoverlabel.bordercolor": colour("--faint") };
    for (const side of ["xaxis", "yaxis"])
      for (const [key, value] of Object.entries(axis)) paint[`${side}.${key}`] = value;
    return paint;
  };
  const charts = [...document.querySelectorAll(".chart")];
  const drawn = charts.map((chart) => {
    const figure = JSON.parse(document.getElementById(`${chart.id}-data`).textContent);
    return Plotly.newPlot(chart, figure.data, figure.layout, { responsive: true, displaylogo: false, displayModeBar: false })
      .then(() => Plotly.relayout(chart, themed()));
  });
  const repaint = () => charts.forEach((chart) => Plotly.relayout(chart, themed()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  Promise.all(drawn).then(() => document.documentElement.setAttribute("data-drawn", String(charts.length)));
})();

"use strict";
(() => {
  const NARROWEST_PANEL_PX = 300, PANEL_PX = 270, PANEL_TITLE_PX = 30, AROUND_PX = 100;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = (chart) => {
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--faint") };
    const paint = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--paper"),
                    "hoverlabel.font.color": colour("--ink"), "hoverlabel.bordercolor": colour("--faint") };
    for (const side of Object.keys(chart.layout).filter((name) => /^[xy]axis\d*$/.test(name)))
      for (const [key, value] of Object.entries(axis)) paint[`${side}.${key}`] = value;
    return paint;
  };
  // Panels go below each other where there is no room for them in a row.
  const arranged = (chart, { panels, columns: wanted }) => {
    const columns = Math.max(1, Math.min(wanted, Math.floor(chart.clientWidth / NARROWEST_PANEL_PX)));
    const rows = Math.ceil(panels / columns);
    chart.style.height = `${rows * PANEL_PX + AROUND_PX}px`;
    return { rows, columns, legendY: 1 + PANEL_TITLE_PX / (PANEL_PX * rows) };
  };
  const draw = (chart) => {
    const { data, layout } = JSON.parse(document.getElementById(`${chart.id}-data`).textContent);
    if (layout.meta?.panels) {
      const { rows, columns, legendY } = arranged(chart, layout.meta);
      Object.assign(layout.grid, { rows, columns });
      layout.legend.y = legendY;
    }
    return Plotly.newPlot(chart, data, layout, { responsive: true, displaylogo: false, displayModeBar: false })
      .then(() => Plotly.relayout(chart, themed(chart)));
  };
  const rearrange = (chart) => {
    const meta = chart.layout?.meta;
    if (!meta?.panels) return;
    const { rows, columns, legendY } = arranged(chart, meta);
    if (columns !== chart.layout.grid.columns)
      Plotly.relayout(chart, { "grid.rows": rows, "grid.columns": columns, "legend.y": legendY, autosize: true });
  };
  const charts = [...document.querySelectorAll(".chart")];
  const drawn = charts.map(draw);
  const repaint = () => charts.forEach((chart) => Plotly.relayout(chart, themed(chart)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("scheme", repaint);  // of a page around it that has a switch of its own
  addEventListener("resize", () => charts.forEach(rearrange));
  Promise.all(drawn).then(() => document.documentElement.setAttribute("data-drawn", String(charts.length)));
})();

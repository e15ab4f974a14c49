package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Sizes of the plot, in its own units.
const (
	plotWidth  = 900
	plotLabels = 260 // width of the labels, left of the bars
	plotValues = 70  // width of the values, right of the bars
	plotBar    = 16
	plotGap    = 4
	plotHead   = 34 // above each group
)

// plotSVG draws a bar for the rate of each entry, and a thin line from its slowest to its fastest
// round, in groups by mode. It shows the modes of throughput only, because the rates of the others
// say little.
func (p page) plotSVG() string {
	var shown []modeFigures
	most := 1.0
	height := plotGap
	for _, f := range p.Modes {
		if !strings.HasPrefix(f.Mode, "throughput") {
			continue
		}
		shown = append(shown, f)
		height += plotHead + len(f.Entries)*(plotBar+plotGap)
		for _, e := range f.Entries {
			most = max(most, slices.Max(e.Rates))
		}
	}
	scale := (plotWidth - plotLabels - plotValues) / most
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, height+plotGap, plotWidth, height+plotGap)
	s.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	y := plotGap
	for _, f := range shown {
		fmt.Fprintf(&s, `<text x="8" y="%d" font-weight="bold">%s, batches/s</text>`+"\n", y+plotHead-12, escape(f.Title))
		y += plotHead
		for _, e := range f.Entries {
			middle, slowest, fastest := y+plotBar/2, slices.Min(e.Rates)*scale, slices.Max(e.Rates)*scale
			fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLabels-8, middle+4, escape(e.Label))
			fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", plotLabels, y, e.Median.Rate*scale, plotBar, color(e.Label))
			fmt.Fprintf(&s, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#333333"/>`+"\n", plotLabels+slowest, plotLabels+fastest, middle, middle)
			fmt.Fprintf(&s, `<text x="%.1f" y="%d">%.0f</text>`+"\n", plotLabels+fastest+8, middle+4, e.Median.Rate)
			y += plotBar + plotGap
		}
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// color returns the color of a contender's bars.
func color(label string) string {
	switch {
	case strings.HasPrefix(label, contenderFloor):
		return "#b8b8b8"
	case strings.HasPrefix(label, contenderRiver):
		return "#e0a040"
	default:
		return "#3a78b5"
	}
}

func escape(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // a strings.Builder returns no error
	return s.String()
}

package console

import (
	"fmt"
	"math"
	"strings"
)

// Sizes of a plot, in its own units.
const (
	plotWidth  = 240
	plotHeight = 72
	plotInset  = 1
)

// plot is a number, with a plot of its earlier values.
type plot struct {
	Title, Number, About string
	// Points are the line's points, for SVG, and Area is the polygon below it; both are "" if
	// fewer than two values are known.
	Points, Area string
	// Top and Half label the scale, and From says when the plot begins.
	Top, Half, From string
}

// drawLine draws values from left to right, on a scale from 0 up to a round number that is not
// below any value. NaN is a value that is not known. The function name writes a value of the
// scale.
func (p *plot) drawLine(values []float64, from string, name func(float64) string) {
	known := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			known++
		}
	}
	if known < 2 {
		return
	}
	top := roundUp(maxValue(values))
	x := func(i int) float64 { return plotWidth * float64(i) / float64(len(values)-1) }
	const baseline = plotHeight - plotInset
	var points []string
	first, last := -1, 0
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if last = i; first < 0 {
			first = i
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), baseline-(plotHeight-2*plotInset)*v/top))
	}
	p.Points = strings.Join(points, " ")
	p.Area = fmt.Sprintf("%.1f,%d %s %.1f,%d", x(first), baseline, p.Points, x(last), baseline)
	p.Top, p.Half, p.From = name(top), name(top/2), from
}

func maxValue(values []float64) (most float64) {
	for _, v := range values {
		if v > most { // false if v is NaN
			most = v
		}
	}
	return most
}

// roundUp returns the next number of the form 1, 2, 4, 6 or 10 times a power of ten, so that half
// of it is short, too.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range [...]float64{1, 2, 4, 6} {
		if v <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

package console

import (
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// maxFrontRows is how many attempted batches the picture of a lane shows, and how many waiting
// ones.
const maxFrontRows = 12

// frontPicture is the picture of a lane's front: a row of text for each batch, and a drawing
// beside the rows whose lines show which batch waits for which. The rows alone say everything that
// the drawing shows.
type frontPicture struct {
	operator.Front
	Lines           []frontLine
	Arcs            []frontArc
	ViewBox, Height string // of the drawing; a row has the same height in it as in the style sheet
}

type frontLine struct {
	operator.FrontRow
	Mark stateMark
	Y    int
}

// frontArc is a line from a batch to the batch that it waits for, with an arrow head at the end.
type frontArc struct{ Line, Head string }

// Lengths of the drawing, in hundredths of a rem.
const (
	rowHeight = 400
	drawWidth = 300
	nodeX     = 220
)

func drawFront(f operator.Front) frontPicture {
	for _, r := range f.Rows {
		if len(r.Blocker.ID) <= maxID {
			continue
		}
		f.Text = strings.ReplaceAll(f.Text, string(r.Blocker.ID), shortText(r.Blocker.ID))
	}
	d := frontPicture{Front: f, ViewBox: fmt.Sprintf("0 0 %d %d", drawWidth, rowHeight*len(f.Rows)), Height: fmt.Sprintf("%drem", rowHeight/100*len(f.Rows))}
	for i, r := range f.Rows {
		d.Lines = append(d.Lines, frontLine{r, frontMark(r), rowHeight*i + rowHeight/2})
	}
	for i, r := range f.Rows {
		if r.Blocked >= 0 && r.Blocked != i {
			d.Arcs = append(d.Arcs, drawArc(d.Lines[i].Y, d.Lines[r.Blocked].Y))
		}
	}
	return d
}

// drawArc draws an arc. The longer it is, the wider it is, so that several arcs do not overlap.
func drawArc(from, to int) frontArc {
	rows := max(from-to, to-from) / rowHeight
	x := max(20, nodeX-90-18*rows)
	tip := nodeX - 75
	return frontArc{
		Line: fmt.Sprintf("M%d %d C%d %d %d %d %d %d", nodeX-60, from, x, from, x, to, tip-20, to),
		Head: fmt.Sprintf("%d,%d %d,%d %d,%d", tip, to, tip-45, to-28, tip-45, to+28),
	}
}

func frontMark(r operator.FrontRow) stateMark {
	m := stateMark{Tone: toneWaiting, Icon: "clock", Word: r.Word}
	switch r.Cause {
	case batch.CauseReady:
		m.Tone, m.Icon = toneOK, "go"
	case batch.CausePaused:
		m.Tone, m.Icon = toneWarning, "pause"
	case batch.CauseHalted:
		m.Tone, m.Icon = toneBad, "halt"
	case batch.CauseDelayed:
		m.Tone, m.Icon = toneWarning, "clock"
	case batch.CauseClaimed:
		m.Tone, m.Icon = toneRunning, "send"
	case batch.CauseLedger:
		m.Tone, m.Icon = toneRunning, "ledger"
	case batch.CauseInDoubt, operator.CauseUnknown:
		m.Tone, m.Icon = toneWarning, "doubt"
	case batch.CauseDecision, batch.CauseHeld, batch.CauseUnserved:
		m.Tone, m.Icon = toneBad, "person"
	case batch.CauseSettling:
		m.Tone, m.Icon = toneBad, "bad"
	}
	return m
}

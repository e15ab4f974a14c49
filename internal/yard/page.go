package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The yard writes the part of a page between these lines from its figures, and keeps the rest,
// which people write.
const (
	pageBegin = "<!-- figures: made by make bench, as is all up to the end of them -->"
	pageEnd   = "<!-- end of the figures -->"
)

// page holds the latest figures of each mode. They are in a file beside the page, so that the yard
// can measure one mode again without the others.
type page struct {
	Modes []modeFigures `json:"modes"`
}

// figuresPath and plotPath return the names of the files beside a page.
func figuresPath(path string) string { return strings.TrimSuffix(path, ".md") + ".json" }
func plotPath(path string) string    { return strings.TrimSuffix(path, ".md") + ".svg" }

func loadPage(path string) (p page, err error) {
	text, err := os.ReadFile(figuresPath(path))
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// setFigures replaces the figures of a mode, and keeps the order of the modes.
func (p *page) setFigures(f modeFigures) {
	p.Modes = slices.DeleteFunc(p.Modes, func(old modeFigures) bool { return old.Mode == f.Mode })
	p.Modes = append(p.Modes, f)
	order := modeNames()
	slices.SortStableFunc(p.Modes, func(a, b modeFigures) int {
		return slices.Index(order, a.Mode) - slices.Index(order, b.Mode)
	})
}

// save writes the figures, the plot, and the page's generated part.
func (p page) save(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made, err := replacePart(string(text), p.markdown(filepath.Base(plotPath(path))))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	for _, f := range []struct{ path, text string }{
		{figuresPath(path), string(data) + "\n"}, {plotPath(path), p.plotSVG()}, {path, made},
	} {
		if err := os.WriteFile(f.path, []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replacePart replaces the text between the two lines.
func replacePart(all, part string) (string, error) {
	before, rest, ok := strings.Cut(all, pageBegin+"\n")
	_, after, end := strings.Cut(rest, pageEnd)
	if !ok || !end {
		return "", fmt.Errorf("want a line %q, and later a line %q", pageBegin, pageEnd)
	}
	return before + pageBegin + "\n" + part + pageEnd + after, nil
}

// markdown returns the page's generated part.
func (p page) markdown(plot string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n![Batches a second](%s)\n", plot)
	if rows := p.goalResults(); len(rows) > 0 {
		s.WriteString("\n### Goals\n\n| measure | goal | reached |\n|---|---|---|\n")
		for _, g := range rows {
			fmt.Fprintf(&s, "| %s | %s | %s |\n", g.description, g.goal, g.measured)
		}
	}
	machine := ""
	for _, f := range p.Modes {
		fmt.Fprintf(&s, "\n### %s\n\n", f.Title)
		if f.Machine != machine {
			machine = f.Machine
			fmt.Fprintf(&s, "On %s. ", machine)
		}
		fmt.Fprintf(&s, "Mode `%s`, %s, medians of %d.\n\n", f.Mode, f.Date.Format(time.DateOnly), len(f.Entries[0].Rates))
		writeMarkdown(&s, f.lines())
	}
	s.WriteString("\n")
	return s.String()
}

func writeMarkdown(s *strings.Builder, lines [][]string) {
	for i, line := range lines {
		s.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			s.WriteString("|---|" + strings.Repeat("---:|", len(line)-1) + "\n")
		}
	}
}

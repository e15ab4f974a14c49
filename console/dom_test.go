package console_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// element is an element of a page.
type element struct {
	name       string
	attrs      map[string]string
	parent     *element
	children   []*element
	characters string // the characters of a text node, which has no name
}

// text returns the text of the element and of all elements below it.
func (e *element) text() string {
	var b strings.Builder
	var walk func(e *element)
	walk = func(e *element) {
		b.WriteString(e.characters)
		for _, k := range e.children {
			walk(k)
		}
	}
	walk(e)
	return b.String()
}

// voidElements are the elements without an end tag.
var voidElements = []string{"meta", "link", "input", "br", "hr"}

// knownElements are the names of the elements that the pages use. Any other element would come
// from data.
var knownElements = []string{
	"html", "head", "meta", "title", "link", "body", "a", "header", "nav", "ul", "li", "form", "label", "input", "button", "main", "h1", "h2", "h3",
	"p", "strong", "small", "time", "span", "section", "article", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd",
	"fieldset", "legend", "select", "option", "code", "pre", "kbd", "details", "summary", "footer", "svg", "polyline", "polygon", "line", "defs", "symbol", "ol", "path", "circle", "use", "datalist", "progress", "script",
}

// knownAttributes are the names of the attributes that the pages use.
var knownAttributes = []string{
	"lang", "charset", "name", "content", "rel", "href", "class", "id", "for", "type", "value", "method", "action", "role", "tabindex", "scope", "datetime",
	"open", "required", "disabled", "checked", "selected", "maxlength", "pattern", "autocomplete", "autocapitalize", "spellcheck", "inputmode",
	"src", "viewBox", "height", "preserveAspectRatio", "points", "d", "cx", "cy", "r", "x1", "x2", "y1", "y2", "placeholder", "list", "hidden", "title", "data-copy", "data-look", "data-word", "max", "aria-sort",
	"aria-label", "aria-labelledby", "aria-describedby", "aria-current", "aria-hidden",
}

// parse reads a page. It returns an error if an element has no end tag, or two.
func parse(text string) (*element, error) {
	root := &element{}
	at := root
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.Entity = false, xml.HTMLEntity
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local, attrs: map[string]string{}, parent: at}
			for _, a := range t.Attr {
				if _, twice := e.attrs[a.Name.Local]; twice {
					return nil, fmt.Errorf("<%s> has %s twice", e.name, a.Name.Local)
				}
				e.attrs[a.Name.Local] = a.Value
			}
			at.children = append(at.children, e)
			if !slices.Contains(voidElements, e.name) {
				at = e
			}
		case xml.EndElement:
			if t.Name.Local != at.name {
				return nil, fmt.Errorf("</%s> ends <%s>", t.Name.Local, at.name)
			}
			at = at.parent
		case xml.CharData:
			at.children = append(at.children, &element{characters: string(t), parent: at})
		}
	}
	if at != root {
		return nil, fmt.Errorf("<%s> is not ended", at.name)
	}
	return root, nil
}

// descendants returns the elements below e that have this name, in order.
func (e *element) descendants(name string) (found []*element) {
	for _, k := range e.children {
		if k.name != "" && (k.name == name || name == "") {
			found = append(found, k)
		}
		found = append(found, k.descendants(name)...)
	}
	return found
}

// findFaults returns what makes a page wrong, unsafe, or hard to use by keyboard or screen reader.
func (e *element) findFaults() (findFaults []string) {
	say := func(format string, args ...any) { findFaults = append(findFaults, fmt.Sprintf(format, args...)) }
	ids, labels := map[string]bool{}, map[string]bool{}
	for _, x := range e.descendants("") {
		if id, has := x.attrs["id"]; has {
			if ids[id] {
				say("two elements have the id %q", id)
			}
			ids[id] = true
		}
		if x.name == "label" && strings.TrimSpace(x.text()) != "" {
			labels[x.attrs["for"]] = true
		}
	}
	level := 0
	for _, x := range e.descendants("") {
		if !slices.Contains(knownElements, x.name) {
			say("<%s> is not of the console", x.name)
		}
		for name, value := range x.attrs {
			if !slices.Contains(knownAttributes, name) {
				say("<%s %s> is not of the console", x.name, name)
			}
			switch name {
			case "href", "action":
				if strings.HasPrefix(value, "/") || strings.Contains(strings.SplitN(value, "?", 2)[0], ":") {
					say("<%s> leads away: %s", x.name, value)
				}
			case "for", "aria-labelledby", "aria-describedby", "list":
				if !ids[value] {
					say("<%s %s=%q> names nothing", x.name, name, value)
				}
			}
		}
		if x.name == "script" && (len(x.attrs) != 1 || x.attrs["src"] != "console.js" || x.text() != "") {
			say("<script> is not of the console: %v %s", x.attrs, x.text())
		}
		switch x.name {
		case "input", "select":
			if x.attrs["type"] != "hidden" && !labels[x.attrs["id"]] {
				say("<%s name=%q> has no label", x.name, x.attrs["name"])
			}
		case "h1", "h2", "h3":
			now := int(x.name[1] - '0')
			if now > level+1 || now == 1 && level > 0 {
				say("<%s> %s follows <h%d>", x.name, x.text(), level)
			}
			level = now
		case "a", "button", "th", "caption", "legend", "summary", "title":
			if strings.TrimSpace(x.text()) == "" {
				say("<%s> without words", x.name)
			}
		case "table":
			if len(x.descendants("caption")) != 1 {
				say("a table without a caption")
			}
		case "fieldset":
			if len(x.descendants("legend")) != 1 {
				say("a fieldset without a legend")
			}
		case "time":
			if x.attrs["datetime"] == "" || !strings.Contains(x.text()+x.attrs["title"], "UTC") {
				say("a time that is not exact: %s", x.text())
			}
		}
	}
	if strings.Contains(e.text(), "ZgotmplZ") || strings.Contains(e.text(), "%!") || strings.Contains(e.text(), "0001-01-01") {
		say("a value that cannot be shown")
	}
	for _, want := range []string{"html", "title", "main", "h1", "nav"} {
		if n := len(e.descendants(want)); n != 1 {
			say("%d <%s>", n, want)
		}
	}
	return findFaults
}

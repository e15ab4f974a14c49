package legible_test

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/legible"
)

const reversedText = "pay\u202etnem"

func TestText(t *testing.T) {
	for given, want := range map[string]string{
		"pay ä 支付 שלום": "pay ä 支付 שלום", reversedText: `pay\u202etnem`, "a\u200bb": `a\u200bb`, "a\u2066b\u2069": `a\u2066b\u2069`, "\ufeffx": `\ufeffx`,
		"a\x1b[2J": `a\u001b[2J`, "👩\u200d👧": "👩\u200d👧", "a\nb\tc": "a\nb\tc", "\U000e0041": `\U000e0041`, "a\u0085b": `a\u0085b`, "a\xffb": "a\xffb",
	} {
		assert.Equal(t, want, legible.Text(given))
	}
	assert.Equal(t, `a b c d\u202e`, legible.Line("a\nb\tc\u2028d\u202e"))
}

// An error and its advice become separate sentences.
func TestSentences(t *testing.T) {
	for want, texts := range map[string][]string{
		"It failed. Look at the log.": {"It failed", "Look at the log."}, "Why? Because.": {"Why?", "", "Because"}, "One. Two.": {"One.\n", "Two"},
		"": {"", " "},
	} {
		assert.Equal(t, want, legible.Sentences(texts...))
	}
}

// A form sends the value that it got, and the page shows that value with invisible characters
// written out.
func TestHTML(t *testing.T) {
	page := template.Must(template.New("").Parse(`<p title="{{.}}">{{.}}</p><input value="{{.}}"><a href="x?y={{.}}">{{.}}</a>`))
	for _, name := range []string{reversedText, "<b>\u202e</b>", `">` + reversedText} {
		var b bytes.Buffer
		require.NoError(t, page.Execute(&b, name))
		assert.Contains(t, string(legible.HTML(b.Bytes())), `<input value="`+template.HTMLEscapeString(name)+`">`)
		assert.Contains(t, string(legible.HTML(b.Bytes())), ">"+template.HTMLEscapeString(legible.Text(name))+"</p>")
	}
	same := []byte("<p>ä</p>")
	assert.Equal(t, same, legible.HTML(same))
}

// A log line has durations with a unit, shows invisible characters, and says each thing once. A
// handler still finds the error.
func TestHandler(t *testing.T) {
	cause := errors.New("dltbatch: no such batch")
	var b bytes.Buffer
	var seen error
	log := slog.New(legible.Handler(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, is := a.Value.Any().(error); is {
			seen = err
		}
		return a
	}})))
	log = log.With(slog.Duration("age", time.Minute)).WithGroup("of")
	log.InfoContext(t.Context(), "line", slog.String("lane", reversedText), slog.Duration("took", 1500*time.Millisecond), slog.Int("n", 1),
		slog.Group("more", slog.Duration("took", time.Second)), slog.Any("error", fmt.Errorf("dltbatch: find: %w", cause)))
	text := b.String()
	for _, want := range []string{`"age":"1m0s"`, `"lane":"pay\\u202etnem"`, `"took":"1.5s"`, `"n":1`, `"more":{"took":"1s"}`, `"error":"find: no such batch"`} {
		assert.Contains(t, text, want)
	}
	require.ErrorIs(t, seen, cause)
}

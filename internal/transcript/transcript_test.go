package transcript

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sampleTranscript has each kind of line that the records of Sawtooth and Splinter nodes have.
const sampleTranscript = `# 2026-11-22T11:07:48Z  target http://127.0.0.1:8008 sim=false
# first POST
> POST /batches  content-type="application/octet-stream" [960 bytes]
< 202 (104ms)  Content-Type: application/json; charset=utf-8
{
  "link": "http://127.0.0.1:8008/batch_statuses?id=25fc2a7172~"
}

#   t=   30.1 ms  status of 25fc2a71: PENDING
> POST /batch_statuses?wait=1  content-type="application/json" ["25fc2a7172~"]
< 200 (1.155s)  Content-Type: application/json; charset=utf-8
{
  "data": [
    {
   ...(cut)

> GET /status  content-type=""
< 404 (1ms)  Content-Type: text/plain; charset=utf-8
404: Not Found

== malformed bodies
> POST /scabbard/aaaaa-bbbbb/a000/batches   [list of one empty batch]
> Host http://127.0.0.1:18085  Authorization: Bearer Cylinder:<jwt of the admin key>  headers map[Content-Type:application/json; charset=utf-8 SplinterProtocolVersion:1]  body 2 bytes = 0a00
< 500 after 1ms  Content-Length: 58 | Content-Type: application/json
< "{\"code\":\"500\",\"message\":\"The server encountered an error\"}"
       25ms  9dc729aa100e... -> Pending
    4m8.55s  8d8d09c4440a... -> Committed

> POST /scabbard/aaaaa-bbbbb/a000/batches   [given up]
> Host http://127.0.0.1:18085  Authorization: (none)  headers map[]  body 0 bytes
< error after 3.00232877s: Post "http://127.0.0.1": context deadline exceeded

> GET /scabbard/aaaaa-bbbbb/a000/batch_statuses?ids=f45057,d797a5...[12945 bytes]   [100 ids]
> Host http://127.0.0.1:18085  Authorization: (none)  headers map[]  body 0 bytes
< 200 after 3ms  Content-Type: application/json
< "[{\"id\":\"5d32fc\",\"status\":{\"statusType\":\"Un...[25901 bytes]"

11:32:27.401 GET /batch_statuses {"data":[]}HTTP2000.650854s
11:10:55 {"data":[1]}
  0.002 raw > {"action":"subscribe"}
  0.048 raw < {"block_id": "731aa98f4b~", "...
  6.034 raw read: failed to read frame header: EOF
`

func TestParse(t *testing.T) {
	entries, err := Parse(sampleTranscript)
	require.NoError(t, err)
	all := Exchanges(entries)
	require.Len(t, all, 8)

	post := all[0]
	require.Equal(t, "first POST", post.Label)
	require.Equal(t, Request{Method: "POST", Target: "/batches", Header: http.Header{"Content-Type": {"application/octet-stream"}}, Size: 960}, post.Request)
	require.Equal(t, 202, post.Answer.Status)
	require.Equal(t, 104*time.Millisecond, post.Answer.After)
	require.Equal(t, "application/json; charset=utf-8", post.Answer.Header.Get("Content-Type"))
	require.JSONEq(t, `{"link":"http://127.0.0.1:8008/batch_statuses?id=25fc2a7172~"}`, post.Answer.Body)

	require.Equal(t, `["25fc2a7172~"]`, all[1].Request.Body)
	require.True(t, all[1].Answer.Cut)
	require.Empty(t, all[2].Request.Header)
	require.Equal(t, "404: Not Found", all[2].Answer.Body)

	splinter := all[3]
	require.Equal(t, "list of one empty batch", splinter.Label)
	require.Equal(t, "application/json; charset=utf-8", splinter.Request.Header.Get("Content-Type"))
	require.Equal(t, "1", splinter.Request.Header.Get("Splinterprotocolversion"))
	require.Equal(t, "http://127.0.0.1:18085", splinter.Request.Header.Get("Host"))
	require.Equal(t, "Bearer Cylinder:<jwt of the admin key>", splinter.Request.Authorization)
	require.Equal(t, 2, splinter.Request.Size)
	require.Equal(t, "0a00", splinter.Request.Body)
	require.Equal(t, 500, splinter.Answer.Status)
	require.Equal(t, "application/json", splinter.Answer.Header.Get("Content-Type"))
	require.JSONEq(t, `{"code":"500","message":"The server encountered an error"}`, splinter.Answer.Body)

	require.Contains(t, all[4].Failure, "deadline exceeded")
	require.Equal(t, 3002328770*time.Nanosecond, all[4].Answer.After)
	require.Equal(t, "100 ids", all[5].Label)
	require.Equal(t, "/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids=f45057,d797a5", all[5].Request.Target)
	require.True(t, all[5].Request.Cut)
	require.True(t, all[5].Answer.Cut)
	require.True(t, strings.HasSuffix(all[5].Answer.Body, `"statusType":"Un`))
	all = all[1:]
	require.Equal(t, "/batch_statuses", all[5].Request.Target)
	require.Equal(t, 200, all[5].Answer.Status)
	require.Equal(t, 650854*time.Microsecond, all[5].Answer.After)
	require.Zero(t, all[6].Answer.Status)
	require.JSONEq(t, `{"data":[1]}`, all[6].Answer.Body)

	var seen []StatusSeen
	var frames []Frame
	var notes []string
	for _, e := range entries {
		switch {
		case e.Seen != nil:
			seen = append(seen, *e.Seen)
		case e.Frame != nil:
			frames = append(frames, *e.Frame)
		case e.Exchange == nil:
			notes = append(notes, e.Note)
		}
	}
	require.Equal(t, []StatusSeen{
		{30100 * time.Microsecond, "25fc2a71", "PENDING"},
		{25 * time.Millisecond, "9dc729aa100e", "Pending"},
		{4*time.Minute + 8550*time.Millisecond, "8d8d09c4440a", "Committed"},
	}, seen)
	require.Equal(t, []Frame{
		{At: 2 * time.Millisecond, Sent: true, Text: `{"action":"subscribe"}`},
		{At: 48 * time.Millisecond, Text: `{"block_id": "731aa98f4b~", "`, Cut: true},
		{At: 6034 * time.Millisecond, Text: "failed to read frame header: EOF", End: true},
	}, frames)
	require.Equal(t, []string{"2026-11-22T11:07:48Z  target http://127.0.0.1:8008 sim=false", "first POST", "malformed bodies"}, notes)
}

func TestParseNamesTheLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# a\n< 200 (1ms)", "line 2: "},
		{"> POST\n", "line 1: "},
		{"\n> GET /a\n# no answer", "line 3: "},
		{"> GET /a", "before the answer"},
		{"> GET /a\n< 200 (soon)", "line 2: "},
		{"> GET /a\n< 200 after 1ms\n< \"unclosed", "line 3: "},
	} {
		_, err := Parse(c.text)
		require.ErrorContains(t, err, c.want, "%q", c.text)
	}
}

func TestDifferences(t *testing.T) {
	header := http.Header{"Content-Type": {"application/json"}}
	answer := func(body string) Answer { return Answer{Status: 200, Header: header, Body: body} }
	record := answer(`{"error":{"code":31,"title":"Full","when":5},"ids":["25fc2a7172~"],"link":"http://127.0.0.1:8008/a?id=25fc2a7172~"}`)
	c := Comparer{Free: []string{"when"}}

	id := "25fc2a717225fc2a717225fc2a717225fc2a717225fc2a717225fc2a717225fc2a7172"
	same := answer(`{"ids":["` + id + `"],"link":"http://sawtooth.test/a?id=` + id + `","error":{"title":"Full","code":31,"when":99}}`)
	require.Empty(t, c.Differences(record, same))

	for name, change := range map[string]struct {
		got  Answer
		want string
	}{
		"status":       {Answer{Status: 500, Header: header, Body: same.Body}, "status: got 500"},
		"content type": {Answer{Status: 200, Body: same.Body}, "content type"},
		"code":         {answer(`{"error":{"code":30,"title":"Full","when":5},"ids":["x"],"link":"y"}`), "body.error.code: got the value 30"},
		"text":         {answer(`{"error":{"code":31,"title":"No","when":5},"ids":["25fc2a7172~"],"link":"http://a:1/a?id=25fc2a7172~"}`), `got the text "No"`},
		"keys":         {answer(`{"error":{"code":31,"title":"Full"},"ids":["25fc2a7172~"],"link":"http://a:1/a?id=25fc2a7172~"}`), "body.error: got the keys"},
		"free type":    {answer(`{"error":{"code":31,"title":"Full","when":"5"},"ids":["25fc2a7172~"],"link":"http://a:1/a?id=25fc2a7172~"}`), "error.when: got a string"},
		"length":       {answer(`{"error":{"code":31,"title":"Full","when":5},"ids":[],"link":"http://a:1/a?id=25fc2a7172~"}`), "body.ids: got the length 0"},
		"type":         {answer(`{"error":[],"ids":["25fc2a7172~"],"link":"http://a:1/a?id=25fc2a7172~"}`), "body.error: got a array"},
		"no JSON":      {answer(`oh`), "body: got"},
	} {
		require.Contains(t, strings.Join(c.Differences(record, change.got), "; "), change.want, name)
	}

	cut := record
	cut.Cut = true
	require.Empty(t, c.Differences(cut, answer(`oh`)))
	require.Empty(t, c.Differences(Answer{Body: `[1]`}, answer(`[1]`)), "what a record does not say")
	require.NotEmpty(t, c.Differences(answer("plain text"), answer("other text")))
}

func TestReadAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusTeapot)
	_, err := w.WriteString("pot")
	require.NoError(t, err)
	a, err := Read(w.Result())
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, a.Status)
	require.Equal(t, "text/html", a.Header.Get("Content-Type"))
	require.Equal(t, "pot", a.Body)
}

// For any bytes, Parse does not panic and keeps the order of lines, and an answer never differs
// from itself.
func FuzzParse(f *testing.F) {
	f.Add(sampleTranscript)
	f.Add("> GET /a\n< 200 (1ms)\n\n\n#")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Parse(text)
		if err != nil {
			return
		}
		line := 0
		for _, e := range entries {
			require.Greater(t, e.Line, line)
			line = e.Line
			if e.Exchange == nil {
				continue
			}
			require.Empty(t, Comparer{}.Differences(e.Exchange.Answer, e.Exchange.Answer))
		}
	})
}

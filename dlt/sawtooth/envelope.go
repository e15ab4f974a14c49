package sawtooth

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// answerEnvelope is a node's error body: {"error": {"code": 30, "message": ..., "title": ...}}.
// Only the code is stable (docs/ledgers/sawtooth.md#submitting).
type answerEnvelope struct {
	bodyForm bodyForm
	code     int // 0 if there is none
	message  string
}

// readEnvelope reads an error body. It never fails: an answer that cannot be read in time has no
// code. cancel cancels the request.
func readEnvelope(h http.Header, body io.Reader, cancel context.CancelFunc) answerEnvelope {
	b, _ := wire.ReadShortBody(body, cancel)
	return parseEnvelope(h.Get("Content-Type"), b)
}

func parseEnvelope(contentType string, b []byte) answerEnvelope {
	media, _, _ := mime.ParseMediaType(contentType)
	b = bytes.TrimSpace(b)
	e := answerEnvelope{}
	switch {
	case media == "application/json", len(b) > 0 && b[0] == '{':
		e.bodyForm = jsonForm
	case media == "text/plain":
		e.bodyForm = textForm
	}
	var doc struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	// A well-formed document of another server, such as a proxy, has no code.
	if json.Unmarshal(b, &doc) == nil {
		e.code, e.message = doc.Error.Code, doc.Error.Message
	}
	return e
}

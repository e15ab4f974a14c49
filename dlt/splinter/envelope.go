package splinter

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// envelope is a node's error body: {"code": "400", "message": ...}. The version guard and the
// service lookup send no code (docs/ledgers/splinter.md#submitting). A 429 has an empty body.
type envelope struct {
	code       int  // 0 if there is none
	isNodeForm bool // true if the code is a string, as the node writes it; a proxy's error has a number
	message    string
}

// readEnvelope reads an error body. It never fails: an answer that cannot be read in time has no
// code. cancel cancels the request.
func readEnvelope(h http.Header, body io.Reader, cancel context.CancelFunc) envelope {
	b, _ := wire.ReadShortBody(body, cancel)
	return parseEnvelope(h.Get("Content-Type"), b)
}

func parseEnvelope(contentType string, b []byte) envelope {
	media, _, _ := mime.ParseMediaType(contentType)
	b = bytes.TrimSpace(b)
	if len(b) == 0 || media != "application/json" && b[0] != '{' {
		return envelope{}
	}
	var e envelope
	var doc struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	// A well-formed document of another server, such as a proxy, has no code.
	if json.Unmarshal(b, &doc) == nil {
		e.message = doc.Message
		e.isNodeForm = len(doc.Code) > 0 && doc.Code[0] == '"'
		e.code, _ = strconv.Atoi(string(bytes.Trim(doc.Code, `"`)))
	}
	return e
}

package sawtoothtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// The REST API's own codes (B3); the only thing about an error that is stable.
const (
	codeUnknownError       = 10
	codeNotReady           = 15
	codeTimedOut           = 17
	codeDisconnected       = 18
	codeSendBackoff        = 19
	codeResponseInvalid    = 20
	codeBatchesInvalid     = 30
	codeQueueFull          = 31
	codeNoBatches          = 34
	codeBadProtobuf        = 35
	codeSubmitContentType  = 42
	codeStatusContentType  = 43
	codeStatusBody         = 46
	codeInvalidID          = 60
	codeInvalidAddress     = 62
	codeStatusIDMissing    = 66
	codeBlockNotFound      = 70
	codeBatchNotFound      = 71
	codeTxNotFound         = 72
	codeStateNotFound      = 75
	codeReceiptNotFound    = 80
	codeReceiptContentType = 81
	codeReceiptBody        = 82
	codeReceiptIDMissing   = 83
)

// apiError is one row of the code table.
type apiError struct {
	status         int
	title, message string
}

func lookUp(code int) apiError {
	switch code {
	case codeUnknownError:
		return apiError{500, "Unknown Validator Error", "The validator failed on this request."}
	case codeNotReady:
		return apiError{503, "Validator Not Ready", "There is no genesis block yet."}
	case codeTimedOut:
		return apiError{503, "Validator Timed Out", "No reply from the validator in time. The request may have been processed, or not."}
	case codeDisconnected:
		return apiError{503, "Validator Disconnected", "The validator went away before it replied."}
	case codeSendBackoff:
		return apiError{408, "Sending Timed Out", "The request could not be sent to the validator."}
	case codeResponseInvalid:
		return apiError{500, "Invalid Validator Response", "The validator's reply could not be decoded."}
	case codeBatchesInvalid:
		return apiError{400, "Submitted Batches Invalid", "The validator refused the list: a structure or a signature is wrong, or a signer is not permitted."}
	case codeQueueFull:
		return apiError{429, "Too Many Batches", "The validator cannot take more batches at present."}
	case codeNoBatches:
		return apiError{400, "No Batches Submitted", "The body is empty."}
	case codeBadProtobuf:
		return apiError{400, "Protobuf Not Decodable", "The body is not a BatchList."}
	case codeSubmitContentType:
		return apiError{400, "Wrong Content Type", "Batches are submitted as application/octet-stream."}
	case codeStatusContentType:
		return apiError{400, "Wrong Content Type", "Batch statuses are asked for as application/json."}
	case codeStatusBody:
		return apiError{400, "Bad Status Request", "The body is not an array of at least one id."}
	case codeInvalidID:
		return apiError{400, "Invalid Resource Id", "An id is not of 128 lower-case hex digits."}
	case codeInvalidAddress:
		return apiError{400, "Invalid State Address", "The address is not of 70 hex digits."}
	case codeStatusIDMissing:
		return apiError{400, "Id Query Invalid or Missing", "The query names no batch id."}
	case codeBlockNotFound:
		return apiError{404, "Block Not Found", "No such block."}
	case codeBatchNotFound:
		return apiError{404, "Batch Not Found", "No such batch in the chain."}
	case codeTxNotFound:
		return apiError{404, "Transaction Not Found", "No such transaction in the chain."}
	case codeStateNotFound:
		return apiError{404, "State Not Found", "Nothing is stored at this address."}
	case codeReceiptNotFound:
		return apiError{404, "Transaction Receipt Not Found", "A transaction has no receipt."}
	case codeReceiptContentType:
		return apiError{400, "Wrong Content Type", "Receipts are asked for as application/json."}
	case codeReceiptBody:
		return apiError{400, "Bad Receipts Request", "The body is not an array of at least one id."}
	case codeReceiptIDMissing:
		return apiError{400, "Id Query Invalid or Missing", "The query names no transaction id."}
	}
	return apiError{500, "Unknown", "Code " + strconv.Itoa(code) + "."}
}

// answer is what goes back, before faults are done to it.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func jsonAnswer(status int, v any) answer {
	return answer{status: status, contentType: "application/json; charset=utf-8", body: pretty(v)}
}

func codeAnswer(code int) answer {
	e := lookUp(code)
	return jsonAnswer(e.status, map[string]any{"error": map[string]any{"code": code, "title": e.title, "message": e.message}})
}

func textAnswer(status int, text string) answer {
	return answer{status: status, contentType: "text/plain; charset=utf-8", body: []byte(text)}
}

// plain500 is what a handler that raises answers: text, not the envelope.
func plain500() answer {
	return textAnswer(http.StatusInternalServerError, "500 Internal Server Error\n\nServer got itself in trouble")
}

// proxyAnswer is a page of whatever stands in front of the node (B10).
func proxyAnswer(status int) answer {
	page := fmt.Sprintf("<html><head><title>%d %s</title></head><body><h1>%s</h1></body></html>\n",
		status, http.StatusText(status), http.StatusText(status))
	return answer{status: status, contentType: "text/html", body: []byte(page)}
}

// replace returns what is answered in place of a.
func (f Fault) replace(a answer) answer {
	switch {
	case f.Answer == AnswerError && f.Code != 0:
		a = codeAnswer(f.Code)
		a.status = cmp.Or(f.Status, a.status)
	case f.Answer == AnswerError:
		a = proxyAnswer(cmp.Or(f.Status, http.StatusBadGateway))
	case f.Answer == AnswerNonJSON:
		a = proxyAnswer(a.status)
	}
	return a
}

// pretty writes JSON as the REST API does: indented by two, keys sorted (maps
// sort themselves), nothing but ASCII, no newline at the end.
func pretty(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		// Only maps, slices, strings and numbers come here.
		panic(err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.IndexFunc(out, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return out
	}
	ascii := make([]byte, 0, len(out))
	for _, r := range string(out) {
		switch {
		case r < utf8.RuneSelf:
			ascii = append(ascii, byte(r))
		case r > 0xffff:
			r -= 0x10000
			ascii = fmt.Appendf(ascii, "\\u%04x\\u%04x", 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			ascii = fmt.Appendf(ascii, "\\u%04x", r)
		}
	}
	return ascii
}

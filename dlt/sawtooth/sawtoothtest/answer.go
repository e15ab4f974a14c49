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

// The codes of the REST API (docs/ledgers/sawtooth.md#error-codes). Only the code of an error is
// stable.
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
	codeCountInvalid       = 53
	codePagingInvalid      = 54
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

// errorOfCode returns the row of a code, with the texts of Sawtooth 1.2.6.
func errorOfCode(code int) apiError {
	switch code {
	case codeUnknownError:
		return apiError{500, "Unknown Validator Error", "An unknown error occurred with the validator while processing your request."}
	case codeNotReady:
		return apiError{503, "Validator Not Ready", "The validator has no genesis block, and is not yet ready to be queried. Try your request again later."}
	case codeTimedOut:
		return apiError{503, "Validator Timed Out", "The request timed out while waiting for a response from the validator. Your request may or may not have been processed."}
	case codeDisconnected:
		return apiError{503, "Validator Disconnected", "The validator disconnected before sending a response. Try your request again later."}
	case codeSendBackoff:
		return apiError{408, "Sending Timed Out", "The request could not be sent to the validator."}
	case codeResponseInvalid:
		return apiError{500, "Invalid Validator Response", "The response from the validator could not be decoded. It may have been corrupted or compromised."}
	case codeBatchesInvalid:
		return apiError{400, "Submitted Batches Invalid", "The submitted BatchList was rejected by the validator. It was poorly formed, or has an invalid signature."}
	case codeQueueFull:
		return apiError{429, "Unable to Accept Batches", "The validator cannot currently accept more batches, due to a full queue.  Please submit your request again."}
	case codeNoBatches:
		return apiError{400, "No Batches Submitted", "The protobuf BatchList you submitted was empty and contained no Batches. You must submit at least one Batch."}
	case codeBadProtobuf:
		return apiError{400, "Protobuf Not Decodable", "The protobuf BatchList you submitted was malformed and could not be read."}
	case codeSubmitContentType:
		return apiError{400, "Wrong Content Type", "Batches must be submitted in a BatchList protobuf binary, with a 'Content-Type' header of 'application/octet-stream'."}
	case codeStatusContentType:
		return apiError{400, "Wrong Content Type", "Requests for batch statuses sent as a POST must have a 'Content-Type' header of 'application/json'."}
	case codeStatusBody:
		return apiError{400, "Bad Status Request", "Requests for batch statuses sent as a POST must have a JSON formatted body with an array of at least one id string."}
	case codeCountInvalid:
		return apiError{400, "Invalid Count Query", "The 'limit' query parameter must be a positive, non-zero integer."}
	case codePagingInvalid:
		return apiError{400, "Invalid Paging Query", "Paging request failed as written. The 'start' or 'limit' query parameter was invalid or out of range."}
	case codeInvalidID:
		return apiError{400, "Invalid Resource Id", "Blockchain items are identified by 128 character hex-strings. A submitted block, batch, or transaction id was invalid: "}
	case codeInvalidAddress:
		return apiError{400, "Invalid State Address", "The state address submitted was invalid. To fetch specific state data, you must submit the full 70-character address."}
	case codeStatusIDMissing:
		return apiError{400, "Id Query Invalid or Missing", "Requests for batch statuses sent as a GET request must have an 'id' query parameter with a comma-separated list of at least one batch id."}
	case codeBlockNotFound:
		return apiError{404, "Block Not Found", "There is no block with the id specified in the blockchain."}
	case codeBatchNotFound:
		return apiError{404, "Batch Not Found", "There is no batch with the id specified in the blockchain."}
	case codeTxNotFound:
		return apiError{404, "Transaction Not Found", "There is no transaction with the id specified in the blockchain."}
	case codeStateNotFound:
		return apiError{404, "State Not Found", "There is no state data at the address specified."}
	case codeReceiptNotFound:
		return apiError{404, "Transaction Receipt Not Found", "There is no transaction receipt for the transaction id specified in the receipt store."}
	case codeReceiptContentType:
		return apiError{400, "Wrong Content Type", "Requests for transaction receipts sent as a POST must have a 'Content-Type' header of 'application/json'."}
	case codeReceiptBody:
		return apiError{400, "Bad Receipts Request", "Requests for transaction receipts sent as a POST must have a JSON formatted body with an array of at least one id string."}
	case codeReceiptIDMissing:
		return apiError{400, "Id Query Invalid or Missing", "Requests for transaction receipts sent as a GET request must have an 'id' query parameter with a comma-separated list of at least one transaction id."}
	}
	return apiError{500, "Unknown", "Code " + strconv.Itoa(code) + "."}
}

// answer is an HTTP answer, before a fault changes it.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func jsonAnswer(status int, v any) answer {
	return answer{status: status, contentType: "application/json; charset=utf-8", body: encodeJSON(v)}
}

func codeAnswer(code int) answer {
	e := errorOfCode(code)
	return jsonAnswer(e.status, map[string]any{"error": map[string]any{"code": code, "title": e.title, "message": e.message}})
}

func textAnswer(status int, text string) answer {
	return answer{status: status, contentType: "text/plain; charset=utf-8", body: []byte(text)}
}

// htmlAnswer returns an answer of the HTTP server that is not the REST API's.
func htmlAnswer(status int, text string) answer {
	return answer{status: status, contentType: "text/html; charset=utf-8", body: []byte(text)}
}

// exceptionAnswer returns the answer to a request whose handler raises an exception: an HTML page.
func exceptionAnswer() answer {
	return htmlAnswer(http.StatusInternalServerError, "<html><head><title>500 Internal Server Error</title></head>"+
		"<body><h1>500 Internal Server Error</h1>Server got itself in trouble</body></html>")
}

// invalidID returns the error for a malformed id. The error names the id.
func invalidID(id string) answer {
	e := errorOfCode(codeInvalidID)
	return jsonAnswer(e.status, map[string]any{"error": map[string]any{"code": codeInvalidID, "title": e.title, "message": e.message + id}})
}

// proxyAnswer returns a page of a proxy in front of the node (docs/ledgers/sawtooth.md#proxies).
func proxyAnswer(status int) answer {
	page := fmt.Sprintf("<html><head><title>%d %s</title></head><body><h1>%s</h1></body></html>\n",
		status, http.StatusText(status), http.StatusText(status))
	return answer{status: status, contentType: "text/html", body: []byte(page)}
}

// changedAnswer returns the answer that the fault puts in place of a.
func (f Fault) changedAnswer(a answer) answer {
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

// encodeJSON encodes JSON as the REST API does: indented by two spaces, with sorted keys, in
// ASCII, and without a newline at the end.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		// Encoding cannot fail: v has only maps, slices, strings and numbers.
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

package evm_test

import (
	"encoding/hex"
	"io"
	"strings"
)

func toHex(b []byte) string { return "0x" + hex.EncodeToString(b) }

func fromHex(s string) []byte {
	b, err := hex.DecodeString(s[2:])
	if err != nil {
		panic(err) // the client has written this text
	}
	return b
}

// sendRequest returns the body of an eth_sendRawTransaction request with these bytes.
func sendRequest(raw []byte) io.Reader {
	return strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["` + toHex(raw) + `"]}`)
}

package auth

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// What a right answer is, computed here from the definitions, with nothing
// shared with the code under test but SHA-256: HMAC as in RFC 2104, base64url
// as in RFC 4648, table 2.

func refDigest(secret []byte, nonce string) string {
	const block = 64
	key := make([]byte, block)
	if len(secret) > block {
		sum := sha256.Sum256(secret)
		copy(key, sum[:])
	} else {
		copy(key, secret)
	}
	inner, outer := make([]byte, block), make([]byte, block)
	for i, c := range key {
		inner[i], outer[i] = c^0x36, c^0x5c
	}
	sum := sha256.Sum256(append(inner, nonce...))
	sum = sha256.Sum256(append(outer, sum[:]...))
	return refBase64(sum[:])
}

const refAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func refBase64(raw []byte) string {
	var text strings.Builder
	bits, held := 0, 0
	for _, c := range raw {
		bits, held = bits<<8|int(c), held+8
		for held >= 6 {
			held -= 6
			text.WriteByte(refAlphabet[bits>>held&63])
		}
	}
	if held > 0 {
		text.WriteByte(refAlphabet[bits<<(6-held)&63])
	}
	return text.String()
}

// digestVectors were computed with openssl:
//
//	printf %s NONCE | openssl dgst -sha256 -mac HMAC -macopt hexkey:SECRET -binary | basenc --base64url
var digestVectors = []struct{ secret, nonce, digest string }{
	{"secret", "AAAAAAAA", "OHf38KplDw05mNGeothe9DRanOw0CeaKyROEy5kgo_A"},
	{"k", "-_-_-_-_", "D2Xj1_4_udy8yXglVU5ZngUPYq6du9JfxK0DYLs85u4"},
	{"\x00\xff\r \t", "09azAZ-_", "lmY5U9s_U6FYfjPBCa6rZ4yfyz4GvZ0WBnxbt-3f3e4"},
	{strings.Repeat("s", 64), "abcdefgh", "M9XMUcwniTT2FCLo2wuN9bw84TsVV86TfO5DCkETn3M"},
	{strings.Repeat("s", 65), "abcdefgh", "lG2bfpOlnVVMb5GszAZzYxrCYxTOU4Nsld-1C9-twrI"},
	{"ключ", "Zm9vYmFy", "_2IaLnDq_15cS3h4eiyLwSFU9NRButtxOel5phZ8QQM"},
}

func TestDigest(t *testing.T) {
	for _, v := range digestVectors {
		if got := refDigest([]byte(v.secret), v.nonce); got != v.digest {
			t.Errorf("the reference's digest of %q under %q is %s, want %s", v.nonce, v.secret, got, v.digest)
		}
		nonce := [NonceSize]byte([]byte(v.nonce))
		if got := string(AppendResponse([]byte("old"), []byte(v.secret), nonce)); got != "old"+v.digest+"\n" {
			t.Errorf("the answer to %q under %q is %q, want %s", v.nonce, v.secret, got, v.digest)
		}
	}
}

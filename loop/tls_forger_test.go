package loop

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"
)

// Types of records, and messages, that a client of crypto/tls does not send.
const (
	recordAlert     = 21
	recordMessage   = 22
	recordOfData    = 23
	keyUpdateAsking = "\x18\x00\x00\x01\x01" // and the server is asked for a new key of its own
)

// forger is a TLS 1.3 client that seals what it likes, with the keys of a
// handshake that crypto/tls made for it.
type forger struct {
	t      *testing.T
	tcp    *net.TCPConn
	conn   *tls.Conn // reads what the server says
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func newForger(t *testing.T, srv *Server) *forger {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var keys bytes.Buffer
	f := &forger{t: t, tcp: c.(*net.TCPConn)}
	f.conn = dialTLS(t, c, &tls.Config{MinVersion: tls.VersionTLS13, KeyLogWriter: &keys})
	if id := f.conn.ConnectionState().CipherSuite; id != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the cipher is %s here", tls.CipherSuiteName(id))
	}
	_, line, _ := strings.Cut(keys.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	fields := strings.Fields(line)
	secret, err := hex.DecodeString(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	f.use(secret)
	_ = c.SetDeadline(time.Now().Add(patience))
	return f
}

// use takes a traffic secret into use (RFC 8446 7.3).
func (f *forger) use(secret []byte) {
	f.secret, f.seq, f.iv = secret, 0, f.expand(secret, "iv", 12)
	block, err := aes.NewCipher(f.expand(secret, "key", 16))
	if err == nil {
		f.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// expand is HKDF-Expand-Label with no context (RFC 8446 7.1).
func (f *forger) expand(secret []byte, label string, n int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	label = "tls13 " + label
	info = append(append(info, byte(len(label))), label...)
	out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// record seals one record.
func (f *forger) record(kind byte, data string) []byte {
	header := []byte{recordOfData, 3, 3}
	header = binary.BigEndian.AppendUint16(header, uint16(len(data)+1+f.aead.Overhead()))
	nonce := bytes.Clone(f.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(f.seq >> (56 - 8*i))
	}
	f.seq++
	return f.aead.Seal(header, nonce, append([]byte(data), kind), header)
}

// rekey is the record that announces a new key, which is used from then on.
func (f *forger) rekey() []byte {
	r := f.record(recordMessage, keyUpdateAsking)
	f.use(f.expand(f.secret, "traffic upd", 32))
	return r
}

func (f *forger) send(b []byte) {
	f.t.Helper()
	if _, err := f.tcp.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

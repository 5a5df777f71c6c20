package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attack is what somebody without the secret can do to a server, over and over.
type attack struct {
	name    string
	env     []string // of the server
	listens bool     // waits for the server's first line before it says something
	says    []byte
	hangsUp bool // does not wait for the server's close
	tls     bool
}

// attacks are those of docs/security.md.
func attacks(b *testing.B) []attack {
	withSecret := []string{"AUTH_SECRET=" + secret}
	hello := clientHello(b)
	return []attack{
		{name: "connect and close", hangsUp: true},
		{name: "connect and close, secret", env: withSecret, hangsUp: true},
		{name: "no such op", says: []byte("?\n")},
		{name: "half a frame", says: acquire(1, 0, 30, "key")[:10], hangsUp: true},
		{name: "193 bytes of one frame", says: []byte("A" + text(192))},
		{name: "TLS to a plaintext port", says: hello},
		{name: "garbage for a digest", env: withSecret, listens: true, says: []byte("garbage\n")},
		{name: "wrong digest", env: withSecret, listens: true, says: []byte(digest("another", "nonsense") + "\n")},
		{name: "plaintext to a TLS port", tls: true, says: acquire(1, 0, 30, "key")},
		{name: "garbage behind a TLS header", tls: true, says: append([]byte{22, 3, 1, 0, 100}, text(100)...)},
		{name: "ClientHello", tls: true, says: hello},
	}
}

// atOnce is how many connections of a flood are under way together.
const atOnce = 32

// BenchmarkAttacks tells what each attack costs the server in CPU and what it
// costs the attacker, who does it as cheaply as it can be done: with system
// calls on one thread, and a ClientHello that was made once. Once one after
// another, so that the server is woken for each, and once as a flood.
func BenchmarkAttacks(b *testing.B) {
	cert, key := selfSigned(b)
	for _, a := range attacks(b) {
		env := append([]string{"LOOPS=1"}, a.env...)
		if a.tls {
			env = append(env, "TLS_CERT_FILE="+cert, "TLS_KEY_FILE="+key)
		}
		for name, many := range map[string]int{"/alone": 1, "/flood": atOnce} {
			b.Run(a.name+name, func(b *testing.B) { a.measure(b, start(b, env...), many) })
		}
	}
}

// measure does it again and again, so many times at once.
func (a *attack) measure(b *testing.B, s *server, many int) {
	addr, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		b.Fatal(err)
	}
	target := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a.run(b, target, many) // what is done the first time
	s.awaitIdle(b)
	server, attacker := cpuOf(b, s.pid()), cpuOfThread(b)
	for done := 0; done < b.N; done += many {
		a.run(b, target, many)
	}
	attacker = cpuOfThread(b) - attacker
	s.awaitIdle(b)
	server = cpuOf(b, s.pid()) - server
	times := float64((b.N + many - 1) / many * many)
	b.ReportMetric(float64(server.Nanoseconds())/1e3/times, "server-µs")
	b.ReportMetric(float64(attacker.Nanoseconds())/1e3/times, "attacker-µs")
	b.ReportMetric(float64(server)/float64(attacker), "server/attacker")
	b.ReportMetric(0, "ns/op")
}

// awaitIdle waits until the server has seen the end of every connection.
func (s *server) awaitIdle(b *testing.B) {
	b.Helper()
	await(b, "all connections have ended", func() bool { return s.metrics(b)["ticketing_connections"] == 0 })
}

// run does it so many times at once: the cheapest client there can be.
func (a *attack) run(b *testing.B, target *unix.SockaddrInet4, many int) {
	fds := make([]int, many)
	for i := range fds {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		fds[i] = fd
		// Closed with an RST: what waits in TIME_WAIT would use up the local ports.
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
			b.Fatal(err)
		}
		if err := unix.Connect(fd, target); err != nil {
			b.Fatal(err)
		}
	}
	var buffer [4096]byte
	read := func(fd int) {
		if _, err := unix.Read(fd, buffer[:]); err != nil && err != unix.ECONNRESET {
			b.Fatal(err)
		}
	}
	for _, fd := range fds {
		if a.listens {
			read(fd)
		}
		if a.says != nil {
			if _, err := unix.Write(fd, a.says); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, fd := range fds {
		if !a.hangsUp { // the first answer says that the work was done
			read(fd)
		}
		unix.Close(fd)
	}
}

// cpuOf is the CPU time of another process, to the nanosecond.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	const scheduled = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// cpuOfThread is the CPU time of this thread.
func cpuOfThread(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// clientHello is the first message of a TLS client.
func clientHello(b *testing.B) []byte {
	b.Helper()
	near, far := net.Pipe()
	defer near.Close()
	go tls.Client(far, &tls.Config{InsecureSkipVerify: true}).Handshake()
	buffer := make([]byte, 4096)
	n, err := near.Read(buffer)
	if err != nil {
		b.Fatal(err)
	}
	return buffer[:n]
}

// selfSigned writes a certificate and its key, of the cheapest kind in use.
func selfSigned(b *testing.B) (certPath, keyPath string) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	certPath, keyPath = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certPath: {Type: "CERTIFICATE", Bytes: der}, keyPath: {Type: "PRIVATE KEY", Bytes: secret}} {
		writeSecrets(b, path, string(pem.EncodeToMemory(block)))
	}
	return certPath, keyPath
}

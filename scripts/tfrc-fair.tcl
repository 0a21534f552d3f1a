# One bottleneck of tfrc-fair in ns-2 (Debian's package ns2), by its own TFRC and TCP: TFRC's rate, TCP's, the share, and what
# of either was dropped, in percent.
#
#   ns tfrc-fair.tcl RTT_MS PAIRS KBPS QUEUE SECONDS SEED JITTER DELACK TCP WARM_UP
#   ns tfrc-fair.tcl 200 1 1280 16 600 1 0.001 1 sack 15
#
# JITTER: seconds before each packet of TCP, at most (overhead_). DELACK: 1, or 0 for an acknowledgement of each packet.
# TCP: sack, newreno or reno.
set rtt [lindex $argv 0]; set n [lindex $argv 1]; set rate [lindex $argv 2]; set q [lindex $argv 3]
set secs [lindex $argv 4]; set seed [lindex $argv 5]; set ov [lindex $argv 6]; set da [lindex $argv 7]
set variant [lindex $argv 8]; set warm [lindex $argv 9]
ns-random $seed
set ns [new Simulator]
remove-all-packet-headers
add-packet-header IP TCP TFRC TFRC_ACK Flags
set rng [new RNG]; $rng seed $seed
Agent/TCP set window_ 10000
Agent/TCP set packetSize_ 1000
Agent/TCP set overhead_ $ov
Agent/TFRC set packetSize_ 1000
set r0 [$ns node]; set r1 [$ns node]
set d [expr $rtt/2.0-2]
$ns duplex-link $r0 $r1 ${rate}kb ${d}ms DropTail
$ns queue-limit $r0 $r1 $q
$ns queue-limit $r1 $r0 100000
proc side {ns r} { set a [$ns node]; $ns duplex-link $a $r 100Mb 1ms DropTail; $ns queue-limit $a $r 10000; $ns queue-limit $r $a 10000; return $a }
for {set k 0} {$k < 2*$n} {incr k} {
  set a [side $ns $r0]; set b [side $ns $r1]
  set t [$rng uniform 0 1]
  if {$k < $n} {
    set src [new Agent/TFRC]; set snk [new Agent/TFRCSink]
    $ns attach-agent $a $src; $ns attach-agent $b $snk; $ns connect $src $snk
    $src set fid_ $k
    $ns at $t "$src start"
  } else {
    if {$variant == "sack"} { set src [new Agent/TCP/Sack1]
      if {$da} {set snk [new Agent/TCPSink/Sack1/DelAck]; $snk set interval_ 40ms} else {set snk [new Agent/TCPSink/Sack1]}
    } elseif {$variant == "reno"} { set src [new Agent/TCP/Reno]
      if {$da} {set snk [new Agent/TCPSink/DelAck]} else {set snk [new Agent/TCPSink]}
    } else { set src [new Agent/TCP/Newreno]
      if {$da} {set snk [new Agent/TCPSink/DelAck]} else {set snk [new Agent/TCPSink]} }
    $ns attach-agent $a $src; $ns attach-agent $b $snk; $ns connect $src $snk
    $src set fid_ $k
    set ftp [new Application/FTP]; $ftp attach-agent $src
    $ns at $t "$ftp start"
  }
}
set fm [$ns makeflowmon Fid]
$ns attach-fmon [$ns link $r0 $r1] $fm
proc snap {} { global fm
  set out {}
  foreach f [$fm flows] { lappend out [list [$f set flowid_] [$f set bdepartures_] [$f set pdrops_] [$f set parrivals_]] }
  return [lsort -integer -index 0 $out] }
$ns at $warm {set s0 [snap]}
$ns at [expr $warm+$secs] {set s1 [snap]; fin}
proc fin {} { global s0 s1 n secs
  set x {0 0}; set dr {0 0}; set ar {0 0}
  foreach u $s0 v $s1 { set w [expr [lindex $u 0] < $n ? 0 : 1]
    lset x $w [expr [lindex $x $w] + ([lindex $v 1]-[lindex $u 1])*8.0/1000/$secs/$n]
    lset dr $w [expr [lindex $dr $w] + [lindex $v 2]-[lindex $u 2]]
    lset ar $w [expr [lindex $ar $w] + [lindex $v 3]-[lindex $u 3]] }
  puts [format "%.0f %.0f share %.2f dropped %.2f %.2f" [lindex $x 0] [lindex $x 1] [expr [lindex $x 0]/[lindex $x 1]] [expr 100.0*[lindex $dr 0]/[lindex $ar 0]] [expr 100.0*[lindex $dr 1]/[lindex $ar 1]]]
  exit 0 }
$ns run

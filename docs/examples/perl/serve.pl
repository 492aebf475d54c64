#!/usr/bin/perl
# A backend in Perl: the conformance model of docs/backends.md, and an example for languages without a library for it.
#
# It has one thread: a loop reads what the appliance sends, and a request that has to wait (for its cancellation, for
# another model, for memory) goes on when something has come. Shared memory is read and written like a file.
use strict;
use warnings;
use JSON::PP;

use constant {
    START => 1, RUN => 2, CANCEL => 3, TAKEN => 4, REPLY => 5, STOP => 6, PING => 7, ANSWER => 8, CHECKING => 9,
    READY => 33, RESPONSE => 34, DONE => 35, EXEC => 36, READ => 38, LOG => 39, METRIC => 40, PONG => 41, CHECKED => 43,
    FINAL => 1, FAILED => 2, EMPTY => 4, FP32 => 11, INVALID => 4, UNSUPPORTED => 6, CANCELLED => 8,
    LONGEST => 1 << 20, UNTAKEN => 64, NO_BLOCK => -1,
};

open my $socket, '+<&=', 3 or die "the socket: $!";
open my $input,  '<&=',  4 or die "the input memory: $!";
open my $output, '+<&=', 5 or die "the output memory: $!";
binmode $_ for $socket, $input, $output;

my ($decoupled, $output_bytes);
my %calls;      # open ones by number
my %streams;    # calls that have more to send: a function that sends one response and returns whether there are more
my %execs;      # by number: a function that takes a reply
my %blocks;     # of the output memory, by offset: [size, call]
my %running;    # calls of the present run that are not ended
my ($run, $last_exec) = (0, 0);

# --- frames ---

sub exactly {
    my ($handle, $size) = @_;
    my $data = '';
    while (length $data < $size) {
        my $got = sysread $handle, $data, $size - length $data, length $data;
        next if !defined $got && $!{EINTR};
        die "read: $!" unless defined $got;
        exit 1 unless $got;    # the appliance is gone
    }
    return $data;
}

sub receive {
    my ($length, $kind) = unpack 'VC', exactly($socket, 5);
    die "a frame of $length bytes" if $length < 1 || $length > LONGEST;
    return ($kind, { data => exactly($socket, $length - 1), at => 0 });
}

sub frame {
    my ($kind, $body) = @_;
    my $data = pack('VC', 1 + length $body, $kind) . $body;
    die 'a message is too long' if length $body >= LONGEST;
    while (length $data) {
        my $sent = syswrite $socket, $data;
        next if !defined $sent && $!{EINTR};
        exit 1 unless $sent;
        substr $data, 0, $sent, '';
    }
}

# take reads values of a frame by a template of unpack; each value has the size that goes before it.
sub take {
    my ($frame, $size, $template) = @_;
    die 'a frame ends early' if length($frame->{data}) - $frame->{at} < $size;
    my $bytes = substr $frame->{data}, $frame->{at}, $size;
    $frame->{at} += $size;
    return defined $template ? unpack $template, $bytes : $bytes;
}
sub u8  { take($_[0], 1, 'C') }
sub u16 { take($_[0], 2, 'v') }
sub u32 { take($_[0], 4, 'V') }
sub u64 { take($_[0], 8, 'Q<') }
sub i64 { take($_[0], 8, 'q<') }
sub str  { my ($frame) = @_; take($frame, u16($frame)) }
sub text { my ($frame) = @_; take($frame, u32($frame)) }

# parameters are kept as they came: [type, value].
sub parameters {
    my ($frame) = @_;
    my %all;
    for (1 .. u16($frame)) {
        my ($name, $type) = (str($frame), u8($frame));
        my $read = (undef, \&u8, \&i64, sub { take($_[0], 8, 'd<') }, \&text)[$type] // die "a parameter of type $type";
        $all{$name} = [$type, $read->($frame)];
    }
    return \%all;
}

sub tensors {
    my ($frame) = @_;
    my %all;
    for (1 .. u16($frame)) {
        my ($name, $type, $dimensions) = (str($frame), u8($frame), u8($frame));
        my @shape = map { i64($frame) } 1 .. $dimensions;
        $all{$name} = { type => $type, shape => \@shape, offset => u64($frame), size => u64($frame) };
    }
    return \%all;
}

sub request {
    my ($frame) = @_;
    my $r = { id => str($frame), correlation => u64($frame), name => str($frame), flags => u32($frame) };
    @$r{qw(priority timeout)} = (u64($frame), u64($frame));
    $r->{parameters} = parameters($frame);
    $r->{wanted} = { map { str($frame) => 1 } 1 .. u16($frame) };
    $r->{inputs} = tensors($frame);
    return $r;
}

sub pack_str  { pack 'v/a*', $_[0] }
sub pack_text { pack 'V/a*', $_[0] }

sub pack_parameters {
    my ($all) = @_;
    my @form = (undef, 'C', 'q<', 'd<', 'V/a*');
    return pack('v', scalar keys %$all)
        . join '', map { pack_str($_) . pack("C $form[$all->{$_}[0]]", @{ $all->{$_} }) } sort keys %$all;
}

# --- shared memory ---

# content reads the tensors of a message, and gives their block back.
sub content {
    my (@lists) = @_;
    my $block;
    for my $tensor (map { values %$_ } @lists) {
        $tensor->{data} = '';
        next unless $tensor->{size};
        sysseek $input, $tensor->{offset}, 0;
        $tensor->{data} = exactly($input, $tensor->{size});
        $block = $tensor->{offset} if !defined $block || $tensor->{offset} < $block;
    }
    frame(READ, pack 'Q<', $block) if defined $block;
}

# room returns a place in the output memory; undef: there is none now.
sub room {
    my ($size, $call) = @_;
    return NO_BLOCK unless $size;
    return undef if defined $call && UNTAKEN <= grep { defined $_->[1] && $_->[1] == $call } values %blocks;
    my $at = 0;
    for my $offset (sort { $a <=> $b } keys %blocks) {
        last if $offset - $at >= $size;
        $at = $offset + $blocks{$offset}[0];
    }
    return $at + $size <= $output_bytes ? $at : undef;
}

sub aligned { int(($_[0] + 63) / 64) * 64 }

# place writes tensors, [name, type, shape, bytes] each, and returns their description; undef: there is no room now.
sub place {
    my ($call, @tensors) = @_;
    my $size = 0;
    $size += aligned(length $_->[3]) for @tensors;
    die { code => UNSUPPORTED, message => "$size bytes are more than the output memory's" } if $size > $output_bytes;
    my $at = room($size, $call);
    return undef unless defined $at;
    $blocks{$at} = [$size, $call] if $at != NO_BLOCK;
    my $body = pack 'v', scalar @tensors;
    for my $tensor (@tensors) {
        my ($name, $type, $shape, $data) = @$tensor;
        my $bytes = length $data;
        $body .= pack_str($name) . pack('CCq<*', $type, scalar @$shape, @$shape) . pack 'Q<Q<', $bytes ? $at : 0, $bytes;
        next unless $bytes;
        sysseek $output, $at, 0;
        for (my $done = 0; $done < $bytes;) {
            $done += syswrite($output, $data, $bytes - $done, $done) // die "the output memory: $!";
        }
        $at += aligned($bytes);
    }
    return $body;
}

# --- answers ---

# respond sends a response with tensors; false: there is no room now, try again later.
sub respond {
    my ($call, $flags, $parameters, @tensors) = @_;
    my $outputs = place($call, @tensors);
    return 0 unless defined $outputs;
    frame(RESPONSE, pack('Q<C', $call, $flags) . pack_parameters($parameters) . $outputs);
    ended($call) if $flags & FINAL;
    return 1;
}

sub fail {
    my ($call, $code, $message) = @_;
    frame(RESPONSE, pack('Q<CC', $call, FINAL | FAILED, $code) . pack_text($message) . pack_parameters({}) . pack 'v', 0);
    ended($call);
}

sub ended {
    my ($call) = @_;
    delete $calls{$call};
    delete $streams{$call};
    delete $running{$call};
    done() if $run && !%running;
}

sub done {
    frame(DONE, pack 'Q<', $run);
    $run = 0;
}

# pump lets each call that has something to send do so, as far as there is room.
sub pump {
    for my $call (keys %streams) {
        while (my $next = $streams{$call}) {
            my $sent = eval { $next->() };
            if (!defined $sent) {
                fail($call, ref $@ ? ($@->{code}, $@->{message}) : (2, "$@"));
            }
            last unless $sent;
        }
    }
}

# --- the model ---

sub parameter { my ($request, $name) = @_; $request->{parameters}{$name} ? $request->{parameters}{$name}[1] : '' }

# once returns what sends a response when there is room.
sub once {
    my ($call, @response) = @_;
    return sub { respond($call, FINAL, @response) };
}

sub echo {
    my ($r) = @_;
    my @outputs;
    for (['X', 'Y'], ['S', 'T']) {
        my ($from, $to) = @$_;
        my $tensor = $r->{inputs}{$from};
        next unless $tensor && (!%{ $r->{wanted} } || $r->{wanted}{$to});
        push @outputs, [$to, $tensor->{type}, $tensor->{shape}, $tensor->{data}];
    }
    return @outputs;
}

sub execute {
    my ($call, $r) = @_;
    my $do = parameter($r, 'do');
    return fail($call, INVALID, parameter($r, 'message')) if $do eq 'error';
    return if $do eq 'wait' || $do eq 'later';    # until CANCEL
    return ask($call, $r) if $do eq 'exec';
    return $streams{$call} = many($call, parameter($r, 'count')) if $do eq 'many';
    my %answer;
    my @outputs = echo($r);
    if ($do eq 'zeros') {
        my $count = parameter($r, 'count');
        return fail($call, UNSUPPORTED, 'more zeros than the output memory holds') if 4 * $count > $output_bytes;
        @outputs = (['Y', FP32, [1, $count], "\0" x (4 * $count)]);
    }
    if ($do eq 'parameters') {
        my %head = map { $_ => [2, $r->{$_}] } qw(correlation flags timeout);
        %answer = (%{ $r->{parameters} }, %head, id => [4, $r->{id}]);
        @outputs = ();
    }
    frame(LOG, pack('C', 1) . pack_text('conformance')) if $do eq 'log';
    if ($do eq 'metric') {
        for (['op', 'family', 'kind', 'counter'], ['op', 'metric'], ['op', 'increment', 'value', 2]) {
            frame(METRIC, pack_text(encode_json({ family => 'conformance_total', @$_ })));
        }
    }
    $streams{$call} = once($call, \%answer, @outputs);
}

# many sends numbers from 0, and an empty response at the end.
sub many {
    my ($call, $count) = @_;
    my $next = 0;
    return sub {
        return respond($call, FINAL | EMPTY, {}) if $next == $count;
        my $sent = respond($call, 0, {}, ['Y', FP32, [1, 1], pack 'f<', $next]);
        $next += $sent;
        return $sent;
    };
}

# ask sends X to another model, and its answers on.
sub ask {
    my ($call, $r) = @_;
    my ($x, $exec) = ($r->{inputs}{X}, ++$last_exec);
    my @waiting;
    $streams{$call} = sub {
        my $inputs = place(undef, ['X', $x->{type}, $x->{shape}, $x->{data}]);
        return 0 unless defined $inputs;
        my $request = pack_str('') . pack('Q<', 0) . pack_str('') . pack('VQ<Q<', 0, 0, 0) . pack_parameters({});
        my $head = pack('Q<Q<C', $exec, $call, $decoupled ? 1 : 0) . pack_str(parameter($r, 'model')) . pack('q<', -1);
        frame(EXEC, $head . $request . pack('v', 0) . $inputs);
        delete $streams{$call};
        return 0;
    };
    $execs{$exec} = sub {
        my ($reply) = @_;
        return unless $calls{$call};
        return fail($call, @{ $reply->{error} }) if $reply->{error};
        my %outputs = %{ $reply->{outputs} };
        my @tensors = map { [$_, @{ $outputs{$_} }{qw(type shape data)}] } keys %outputs;
        push @waiting, [$reply->{flags} & (FINAL | EMPTY), {}, @tensors];
        $streams{$call} = sub {
            return 0 unless @waiting;
            return 0 unless respond($call, @{ $waiting[0] });
            shift @waiting;
            delete $streams{$call} unless @waiting;
            return 1;
        };
    };
}

# --- what the appliance sends ---

my %handlers = (
    RUN() => sub {
        my ($frame) = @_;
        $run = u64($frame);
        u8($frame);
        my @requests = map { [u64($frame), request($frame)] } 1 .. u16($frame);
        content(map { $_->[1]{inputs} } @requests);
        for (@requests) {
            my ($call, $request) = @$_;
            $calls{$call} = $request;
            $running{$call} = 1 unless $decoupled;
        }
        execute(@$_) for @requests;
        done() if $run && !%running;
    },
    CANCEL() => sub {
        my $call = u64($_[0]);
        fail($call, CANCELLED, 'the request was cancelled') if $calls{$call};
    },
    TAKEN() => sub { delete $blocks{ u64($_[0]) } // die 'no block begins there' },
    REPLY() => sub {
        my ($frame) = @_;
        my ($exec, $flags) = (u64($frame), u8($frame));
        my $reply = { flags => $flags };
        $reply->{error} = [u8($frame), text($frame)] if $flags & FAILED;
        str($frame), i64($frame), parameters($frame);
        content($reply->{outputs} = tensors($frame));
        $execs{$exec}->($reply);
        delete $execs{$exec} if $flags & FINAL;
    },
    STOP() => sub { exit 0 },
    PING() => sub { frame(PONG, take($_[0], 8) . pack 'Q<', 0) },
    CHECKING() => sub { frame(CHECKED, take($_[0], 8) . pack('C', 1) . pack_text('')) },
);

sub start {
    my ($kind, $frame) = receive();
    die 'the first frame is no START' unless $kind == START;
    my $start = decode_json(text($frame));
    if ($start->{protocol} != 1) {
        my %error = (code => UNSUPPORTED, message => "protocol $start->{protocol} is not spoken");
        frame(READY, pack_text(encode_json({ error => \%error })));
        exit 1;
    }
    $output_bytes = $start->{output_bytes};
    $decoupled = ($start->{configuration}{model_transaction_policy} // {})->{decoupled};
    frame(READY, pack_text('{}'));
    exit 0 if $start->{describe};
}

start();
while (1) {
    my ($kind, $frame) = receive();
    my $handler = $handlers{$kind} // die "a frame of kind $kind";
    $handler->($frame);
    pump();
}

"""What layers do to an environment, and why a command cannot be followed."""

SENTENCES = {
    "step.set-over": "{name} is set to “{value}”, over “{before}”.",
    "step.env.clear": "The environment starts empty: nothing is inherited.",
    "step.env.unset": "{name} is unset.",
    "step.env.kept": "{name} stays “{value}”: setdefault to “{given}” changes only what is unset.",
    "step.env.unknown": "What {name} is set to only the shell could work out; it is taken as unchanged here.",
    "step.env.late": "{name} is set to “{value}” after CUDA has started: this process keeps its numbering.",
    "error.too-many-processes": "This would start more than {most} processes; so many are not drawn.",
    "error.job": "Program {job} of this script does not start: {error}",
    "error.command.long": "This is too long for a command.",
    "error.command.quote": "The quote at character {at} is never closed.",
    "error.command.backtick": "The backtick at character {at} is never closed.",
    "error.command.parenthesis": "The parenthesis at character {at} is never closed.",
    "error.command.brace": "The brace at character {at} is never closed.",
    "error.command.yaml": "This YAML cannot be read: it breaks off in line {at}.",
    "error.command.yaml-large": "This YAML is larger or deeper than any manifest; given up in line {at}.",
    "error.command.yaml-alias": "An alias of this YAML holds itself or multiplies the text beyond measure; refused in line {at}.",
    "error.command.yaml-twice": "A key stands twice in one mapping of this YAML, in line {at}.",
    "error.command.yaml-no-container": "This YAML describes no container.",
    "step.jobs": "The script starts {count} programs.",
}

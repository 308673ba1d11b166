# Completion of ragflow-lg for fish. Load it with: ragflow-lg completion fish | source
function __ragflow_lg
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] completion fish -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c ragflow-lg -f -a '(__ragflow_lg)'
